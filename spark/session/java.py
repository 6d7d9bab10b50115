"""Check that Spark runs on the Java of this machine."""

from settings.java import path_of, version_of
from spark.session.reaching import UnreachableError

OLDEST, NEWEST = 17, 23
"""Spark 4.1 is compiled for Java 17. When it starts, Hadoop's `UserGroupInformation` calls
`javax.security.auth.Subject.getSubject`, which throws from Java 24 on."""

REMEDY = f"install a JDK of Java {OLDEST} to {NEWEST}, or name the one there is with JAVA_HOME"


def require_java() -> None:
    """Check that Spark runs on the Java that it will find.

    Raises:
        UnreachableError: there is none, or Spark does not run on it.
    """
    path = path_of("java")
    if path is None:
        raise UnreachableError(f"no java on PATH or in JAVA_HOME: {REMEDY}")
    version = version_of(path)
    if version is None or not OLDEST <= version <= NEWEST:
        shown = f"Java {version}" if version else "no Java of a known version"
        raise UnreachableError(f"{path} is {shown}, on which Spark does not run: {REMEDY}")
