"""Environments that somebody made up to do harm: what they hold, what watches, and what has to hold for each of them.

``words`` and ``folders`` are strategies, ``watch`` sees what the program touches, ``outputs`` judges what it says.
"""
