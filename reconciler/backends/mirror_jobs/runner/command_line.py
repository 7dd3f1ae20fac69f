"""The spark-submit command line of a job: executable, Java, master, the zip of our code, arguments."""

import importlib.util
import os
import re
import shutil
import sys
import zipfile
from collections.abc import Mapping
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path

from reconciler.errors import RunnerError
from reconciler.kafka.client.auth.settings import read_secret
from reconciler.model.environment.topology import SPARK_SECRET, Mirror
from reconciler.replication.allowed import VARIABLE
from reconciler.replication.handover import CLIENT, CLUSTER, MasterKind, master_kind
from reconciler.replication.secret_references import REFERENCE, MissingReference, resolve

JOB_MARK = "mirror_job.py"


def spark_submit() -> str:
    """``$SPARK_HOME/bin/spark-submit`` if SPARK_HOME is set, else the one of the pyspark package."""
    home = os.environ.get("SPARK_HOME")
    spec = importlib.util.find_spec("pyspark")
    root = Path(home) if home else Path(spec.origin).parent if spec and spec.origin else None
    path = root / "bin" / "spark-submit" if root else None
    if path is None or not os.path.exists(path):  # noqa: PTH110 - raises nothing, for a folder of another user
        raise RunnerError(
            f"spark-submit was not found{f' under SPARK_HOME={home}' if home else ''}",
            "The mirror job is a Spark application and cannot start without it.",
            "Run pip install 'kafka-topology-reconciler[mirror]', or set SPARK_HOME to a Spark 3.5 or 4.",
        )
    return str(path)


def require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") is None and not (home and shutil.which("java", path=f"{home}/bin")):
        raise RunnerError(
            "Java was not found on the PATH nor under JAVA_HOME",
            "Spark runs on Java; Spark 4 on Java 17 or newer.",
            "Install it, for example the package openjdk-17-jre-headless, and try again.",
        )


def require_spark() -> None:
    """Raises one RunnerError if Java or spark-submit is missing, with both problems."""
    missing = list[RunnerError]()
    for require in (require_java, spark_submit):
        try:
            require()
        except RunnerError as error:
            missing.append(error)
    if len(missing) == 1:
        raise missing[0]
    if missing:
        raise RunnerError(
            ", and ".join(error.what for error in missing),
            " ".join(error.why for error in missing),
            " ".join(error.todo for error in missing),
        )


MASTERS = re.compile(r"local(\[[^\]]+\])?|local-cluster\[.+\]|spark://.+|k8s://.+|yarn")


def require_master(mirror: Mirror) -> None:
    """Checks only the form of the master; a start shows whether it answers."""
    if not MASTERS.fullmatch(mirror.master):
        raise RunnerError(
            f"mirror {mirror.name} has the Spark master {mirror.master!r}, which is no master URL",
            "spark-submit would refuse it, and nothing would be mirrored.",
            f"Set mirrors.{mirror.name}.master to local[2], spark://HOST:PORT, k8s://URL or yarn.",
        )


def package_folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise RunnerError(
            f"the package {package} is not installed", "The mirror job needs it.", f"Run pip install {package}."
        )
    return Path(spec.origin).parent


def job_script(name: str) -> Path:
    """The path of ``mirror_job.py``, for spark-submit, or of a script that starts Spark itself."""
    return package_folder("reconciler_mirror") / "jobs" / name


BUNDLED = {
    "reconciler": ("__init__.py", "kafka/**/*.py", "replication/**/*.py"),
    "reconciler_mirror": ("**/*.py",),
}
"""Our packages that the job needs: its own, the protocol, and the shared ones."""


def bundle(target: Path) -> None:
    """Writes a zip of ``reconciler_mirror`` and our packages that it imports, for --py-files, so that every executor
    has them."""
    draft = target.with_suffix(".draft")
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
        for package, parts in BUNDLED.items():
            root = package_folder(package)
            for source in sorted(path for part in parts for path in root.glob(part)):
                archive.write(source, f"{package}/{source.relative_to(root)}")
    draft.replace(target)


# The JVM of the mirror job only hands out leases, so the C2 compiler would cost more than it saves.
QUICK_START = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def application_conf(mirror: Mirror) -> Mapping[str, str]:
    """Spark settings from the mirror's own keys. A standalone cluster gives an application all cores by default, which
    would leave none for verify, or for a new application that takes over."""
    conf = dict(mirror.deployment.spark_conf(mirror.master))
    if master_kind(mirror.master) is MasterKind.STANDALONE:
        conf.setdefault("spark.cores.max", str(mirror.parallelism))
    if {**conf, **mirror.spark_conf}.get("spark.pyspark.python"):  # for executors; the driver runs on this machine
        conf["spark.pyspark.driver.python"] = sys.executable
    return conf


def submit_command(mirror: Mirror, folder: Path) -> list[str]:
    # Deploy mode cluster: a process on this machine submits the driver and follows it (decision 164).
    """The command that a supervisor runs. What it starts holds no secret: references are resolved by the job."""
    if mirror.deployment.deploy_mode == CLUSTER:
        conf = {**_DRIVER_CONF, **_CLUSTER_CONF, **mirror.deployment.spark_conf(mirror.master), **mirror.spark_conf}
        in_image = master_kind(mirror.master) is MasterKind.KUBERNETES and not conf.get(UPLOAD_PATH)
        files = [] if in_image else ["--py-files", str(folder / "bundle.zip")]
        script = SCRIPT_IN_IMAGE if in_image else str(job_script(JOB_MARK))
        words = _submit_words(mirror.master, f"mirror-{mirror.name}", conf)
        submitted = [words[0], "--deploy-mode", CLUSTER, *words[1:], *files, script]
        return [sys.executable, "-m", FOLLOWER, "--run-dir", str(folder), "--", *submitted]
    local = {"spark.local.dir": str(folder / "spark")}
    conf = {**_DRIVER_CONF, **local, **application_conf(mirror), **mirror.spark_conf}
    options = spark_options(mirror.master, f"mirror-{mirror.name}", conf, folder)
    given = ["--handover", str(folder / "handover.json"), "--run-dir", str(folder)]
    return [spark_submit(), *options, str(job_script(JOB_MARK)), *given]


_DRIVER_CONF = {
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": QUICK_START,
    "spark.ui.showConsoleProgress": "false",
}
_CLUSTER_CONF = {
    "spark.yarn.maxAppAttempts": "1",  # the supervisor restarts it, also elsewhere, and knows when not to
    "spark.yarn.submit.waitAppCompletion": "true",
    "spark.kubernetes.submission.waitAppCompletion": "true",
}
UPLOAD_PATH = "spark.kubernetes.file.upload.path"
SCRIPT_IN_IMAGE = "local:///opt/reconciler/mirror_job.py"
"""Place of the entry script in docs/mirror/deploy/Containerfile: without an upload path Spark cannot ship files to
pods."""


FOLLOWER = "reconciler_mirror.jobs.follow_driver"


def _security(master: str) -> Mapping[str, str]:
    """Spark settings for listeners and authentication. With a local master nothing listens beyond loopback; on a
    cluster the UI is off unless a proxy such as YARN's is in front of it. Spark generates the secret of
    ``spark.authenticate``, except for a standalone cluster, which must know it, too."""
    conf = {"spark.ui.killEnabled": "false"}
    if master.startswith("local"):
        conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if master.startswith(("spark://", "k8s://")):
        conf["spark.ui.enabled"] = "false"
    if master.startswith(("yarn", "k8s")) or re.fullmatch(r"local(\[.*\])?", master):
        conf["spark.authenticate"] = "true"
    if master.startswith(("yarn", "k8s")):
        conf |= _ENCRYPTED
    return conf


_ENCRYPTED = {"spark.network.crypto.enabled": "true", "spark.io.encryption.enabled": "true"}
"""Encrypts traffic between driver and executors, which includes the token of the control channel, and spilled data.
Both need ``spark.authenticate``."""
_IN_THE_VARIABLE = "is-in-the-environment"
"""Spark requires the setting but prefers the variable. If it ever used this value, every cluster would refuse it."""
_SECRET_VARIABLE = "_SPARK_AUTH_SECRET"  # noqa: S105  # a name: Spark's SecurityManager.ENV_AUTH_SECRET


def spark_secret(mirror: Mirror, master: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The secret that a standalone cluster shares with its applications, as the variable that Spark passes to
    executors: on no command line, in no file, and in no setting that UI or event log shows.

    Raises RunnerError without a secret."""
    reference = mirror.spark_conf.get(SPARK_SECRET)
    if reference is None or not master.startswith("spark://"):
        return {}
    try:
        return {_SECRET_VARIABLE: resolve({"": reference}, environ, read_secret)[""]}
    except MissingReference as missing:
        raise RunnerError(
            f"mirror {mirror.name} cannot be started: its {SPARK_SECRET} cannot be had: {missing}",
            "The Spark cluster would not let the job in; nothing was started.",
            missing.todo,
        ) from None


_PASSED_ON = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_.*|TZ|TMPDIR|HOSTNAME|VIRTUAL_ENV|LD_LIBRARY_PATH|JAVA_.*|JDK_.*|SPARK_.*"
    r"|PYSPARK_.*|PYTHON.*|HADOOP_.*|YARN_.*|KUBECONFIG|KUBERNETES_.*|KRB5.*|OPENSSL_CONF|SSL_CERT_.*"
    rf"|https?_proxy|no_proxy|HTTPS?_PROXY|NO_PROXY|RECONCILER_STATE|{VARIABLE}|MALLOC_.*|OMP_NUM_THREADS"
)
_OF_IDENTITIES = {
    "aws_": ("AWS_",),
    "azure": ("AZURE_", "IDENTITY_ENDPOINT", "IDENTITY_HEADER"),
    "gcp": ("GOOGLE_APPLICATION_CREDENTIALS", "GCE_METADATA_HOST"),
}
"""Prefix of a ``sasl.oauthbearer.method`` -> prefixes of variables with a job's identity in that cloud."""
_METHOD = re.compile(r'"sasl\.oauthbearer\.method"\s*:\s*"([^"]+)"')
JOB_VARIABLES = "RECONCILER_JOB_VARIABLES"


def job_environment(
    master: str, handover: str, environ: Mapping[str, str], deploy_mode: str = CLIENT
) -> dict[str, str]:
    """Variables of ``environ`` for Spark and Python, for references and cloud logins of ``handover``, and those that
    match RECONCILER_JOB_VARIABLES (patterns separated by spaces)."""
    # A job gets only variables that its definition needs, so that other secrets of ``apply`` do not reach a cluster.
    referred = {name for kind, name in REFERENCE.findall(handover) if kind == "env"}
    also = environ.get(JOB_VARIABLES, "").split()
    methods = [method.lower() for method in _METHOD.findall(handover)]
    begins = [words for begin, words in _OF_IDENTITIES.items() if any(method.startswith(begin) for method in methods)]
    of_identity = tuple(chain.from_iterable(begins))
    kept = {
        name: value
        for name, value in environ.items()
        if name in referred
        or _PASSED_ON.fullmatch(name)
        or name.startswith(of_identity)
        or any(fnmatchcase(name, pattern) for pattern in also)
    }
    if master.startswith("local"):
        kept.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # the address of Spark's UI
    if deploy_mode == CLUSTER:  # Spark would pass it to a machine without this path
        return kept
    return {**kept, "PYSPARK_PYTHON": environ.get("PYSPARK_PYTHON", sys.executable)}


def spark_options(master: str, name: str, conf: Mapping[str, str], folder: Path) -> list[str]:
    """``folder``: contains the zip of our code. ``conf``: overrides the settings for listeners."""
    return [*_submit_words(master, name, conf)[1:], "--py-files", str(folder / "bundle.zip")]


def python_path(environ: Mapping[str, str]) -> dict[str, str]:
    """PYTHONPATH for a script that starts Spark itself: the pyspark of SPARK_HOME, which matches its JVM."""
    if not (home := environ.get("SPARK_HOME")):
        return {}
    libraries = sorted(map(str, (Path(home) / "python" / "lib").glob("*.zip")))
    return {"PYTHONPATH": os.pathsep.join([*libraries, *filter(None, [environ.get("PYTHONPATH")])])}


def _submit_words(master: str, name: str, conf: Mapping[str, str]) -> list[str]:
    """The first words of a spark-submit command. Spark's secret is passed as a variable, never as an argument, which
    every user of the machine can see; a standalone master with a secret gets encryption, too."""
    words = [spark_submit(), "--master", master, "--name", name]
    given = {**_security(master), **conf}
    if given.pop(SPARK_SECRET, None) is not None and master.startswith("spark://"):
        given = {"spark.authenticate": "true", **_ENCRYPTED, **given, SPARK_SECRET: _IN_THE_VARIABLE}
    for key, value in sorted(given.items()):
        words += ["--conf", f"{key}={value}"]
    return words
