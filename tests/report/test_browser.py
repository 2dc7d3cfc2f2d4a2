"""The page in a real browser without a screen: it loads without errors, the slider moves the points, numbers agree."""

import shutil

import numpy as np
import pytest

import sdpmetric as sm
from sdpmetric import datasets
from sdpmetric.report import Recorder, write

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver")


@pytest.fixture(scope="module")
def recorder():
    return Recorder()


@pytest.fixture(scope="module")
def solution(recorder):
    X, y = datasets.load("wine")
    problem = sm.LMNNProblem.from_labels(datasets.standardize(X), y)
    return sm.solve(problem, solver="subgradient", tol=1e-2, watch=recorder)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.execute_cdp_cmd("Network.enable", {})
    driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["http://*", "https://*"]})
    yield driver
    driver.quit()


@pytest.fixture
def page(browser, solution, recorder, tmp_path):
    """The page at 1280 pixels, without motion."""
    X, y = datasets.load("wine")
    held_out = datasets.standardize(X + 0.1 * np.random.default_rng(0).normal(size=X.shape)), y
    write(solution, tmp_path / "page.html", title="wine", held_out=held_out, frames=recorder.frames)
    look(browser, 1280, "light")
    browser.get((tmp_path / "page.html").as_uri())
    drawing(browser)
    yield browser
    assert browser.get_log("browser") == []


def drawing(browser):
    """Wait until the charts are unpacked."""
    wait = pytest.importorskip("selenium.webdriver.support.ui").WebDriverWait
    wait(browser, 20).until(lambda page: page.execute_script("return !!window.report"))


def look(browser, width, scheme):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
    chosen = [{"name": name, "value": value} for name, value in features.items()]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": chosen})


def find(browser, name):
    return browser.find_element("id", name)


def positions(browser, n):
    return np.array(browser.execute_script(f"return [...Array({n}).keys()].map(report.position)"))


def drawn(browser):
    """The points that Vega has drawn."""
    script = "return report.views.embedding.data('points').map((row) => [row.x, row.y])"
    return np.array(browser.execute_script(script))


def test_slider_moves_the_points_to_the_learned_embedding(page, solution):
    n = len(solution.problem.X)
    slider = find(page, "frame")
    assert find(page, "caption").text.startswith("after: the learned metric; ")  # without motion, the result first
    slider.send_keys("\ue011")  # home
    before = drawn(page)
    np.testing.assert_allclose(before, positions(page, n))
    frames = int(slider.get_attribute("max")) + 1
    assert frames >= 4
    slider.send_keys("\ue014")  # right arrow
    assert page.execute_script("return report.frame()") == 1
    assert "during" in find(page, "caption").text
    assert not np.allclose(drawn(page), before)
    slider.send_keys("\ue010")  # end
    assert find(page, "caption").text.startswith("after: the learned metric; ")
    after = drawn(page)
    Z = solution.problem.centered @ solution.components.T
    u, s, _ = np.linalg.svd(Z, full_matrices=False)
    plane = u[:, :2] * s[:2]
    np.testing.assert_allclose(after @ after.T, plane @ plane.T, atol=1e-4 * np.square(plane).max())
    slider.send_keys("\ue011")  # home
    np.testing.assert_allclose(drawn(page), before)


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_fits_every_width_in_light_and_dark(page, width, scheme):
    look(page, width, scheme)
    page.refresh()
    drawing(page)
    assert page.execute_script("return document.documentElement.scrollWidth") <= width
    assert page.execute_script("return document.documentElement.dataset.theme") == scheme
    ink, paper = (
        page.execute_script(f"return getComputedStyle(document.body).{name}") for name in ("color", "backgroundColor")
    )
    assert abs(brightness(ink) - brightness(paper)) > 150
    for chart in ("embedding", "interval", "weights", "spectrum"):
        assert page.find_element("css selector", f"#{chart} canvas").size["width"] <= width
    find(page, "theme").click()
    assert page.execute_script("return document.documentElement.dataset.theme") != scheme


def brightness(color):
    return sum(float(channel) for channel in color.split("(")[1].rstrip(")").split(",")[:3]) / 3
