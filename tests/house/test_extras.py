"""What is optional stays optional, and says how to get it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

import kernelmean as km


@pytest.mark.skipif(find_spec("torch") is not None, reason="torch is installed")
def test_neural_without_torch_says_how_to_install_it():
    with pytest.raises(ImportError, match="pip install 'torch>=2.3'"):
        km.Neural  # noqa: B018


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        km.nothing  # noqa: B018


FRESH = """
import json, sys, sklearn.linear_model, scipy.optimize
steps = [list(sys.modules)]
import kernelmean as km
steps.append(list(sys.modules))
try: km.load(sys.argv[1])
except ValueError as err: assert 'does not have: Nothing' in str(err)
else: raise AssertionError
steps.append(list(sys.modules))
d = km.datasets.make_iv_sigmoid(50, random_state=0)
km.KernelIV(tune_lengthscale=False).fit(d.X, d.y, d.Z).predict(d.X)
print(json.dumps([*steps, list(sys.modules)]))
"""


@pytest.fixture(scope="module")
def steps(tmp_path_factory) -> list[set[str]]:
    """Modules of a fresh process: before the package, with it, after a file with an odd class, and
    after a fit.
    """
    tree = {"class": "Nothing", "state": {"dict": []}}
    digest = hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()
    header = {"format": "kernelmean", "version": 2, "sha256": digest, "object": tree}
    odd = tmp_path_factory.mktemp("fresh") / "odd.km"
    with zipfile.ZipFile(odd, "w") as archive:
        archive.writestr("header.json", json.dumps(header))
    command = [sys.executable, "-c", FRESH, str(odd)]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    return [set(modules) for modules in json.loads(told.stdout)]


@pytest.mark.slow
def test_bayes_rule_does_not_wait_for_logistic_regressions():
    """They are of density ratios, and a tenth of a second to import."""
    code = "import sys, kernelmean as km; km.KernelBayes; print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"sklearn.linear_model", "sklearn.model_selection"} & {*told.stdout.split()}


@pytest.mark.slow
def test_importing_the_package_imports_little(steps):
    """Beyond what scikit-learn's linear models do anyway: no searches, trees, processes, tables.

    Dask is imported for its own arrays only.
    """
    before, imported, _, fitted = steps
    libraries = {name.split(".")[0] for name in imported - before}
    assert libraries <= {"kernelmean", "array_api_compat"}
    late = ("comparators", "datasets", "display", "adapters", "app")
    late += ("instruments", "hmm", "statespace", "filtering")
    assert not imported & {f"kernelmean.{part}" for part in late}
    assert "sklearn.gaussian_process" not in imported
    others = {"matplotlib", "pandas", "torch", "dask", "typer", "rich"}
    assert not (imported - before) & others
    assert "matplotlib" not in imported
    assert "dask" not in fitted


@pytest.mark.slow
def test_a_class_that_a_file_names_brings_in_no_optional_package(steps):
    """Whatever the name: PyTorch alone is imported, for `Neural`, which is nothing without it."""
    before, _, loaded, _ = steps
    ours = {"torch", "pandas", "dask", "matplotlib", "typer", "formulaic", "statsmodels", "river"}
    assert not ours & {name.split(".")[0] for name in loaded - before}


def test_every_public_name_is_found_whether_it_is_imported_or_not():
    assert set(km.__all__) <= set(dir(km))
    for name in set(km.__all__) - {"Neural", "econml"}:
        assert getattr(km, name) is getattr(km, name)


HIDDEN = """
import sys
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name in ("dask", "pandas", "torch", "matplotlib", "typer", "econml"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hide())
import kernelmean as km
print(km.load(sys.argv[1]))
"""


@pytest.mark.slow
def test_files_load_where_no_extra_is_installed(tmp_path):
    """A class that a file names is looked for in modules that need nothing optional."""
    km.KernelBayesFilter(reg=0.5).save(tmp_path / "model.km")
    command = [sys.executable, "-c", HIDDEN, str(tmp_path / "model.km")]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert told.stdout == "KernelBayesFilter(reg=0.5)\n"


ROOT = Path(__file__).parents[2]
CLONE = pytest.mark.skipif(not (ROOT / "conda").is_dir(), reason="not in a clone")


@CLONE
def test_the_conda_recipe_asks_for_what_the_package_asks_for():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    recipe = (ROOT / "conda" / "recipe.yaml").read_text()
    run = recipe.partition("  run:\n")[2].partition("\n\n")[0].replace("    - ", "").split("\n")
    needed = [f"python{project['requires-python']}", *project["dependencies"]]
    assert [line.replace(" ", "") for line in run] == needed


@CLONE
@pytest.mark.parametrize("file", ["conda/recipe.yaml", "CITATION.cff"])
def test_the_version_is_the_same_everywhere(file):
    assert f"version: {km.__version__}\n" in (ROOT / file).read_text().replace('"', "")
