"""serve_page.py - uses every control of kerf serve's page in headless Chromium, by the WebDriver protocol,
and compares what it shows with what the API says.

    serve_page.py CHROMEDRIVER BROWSER URL MODEL FILE [FOLDER FOR PICTURES]

FILE is the page as a file, with an advice for MODEL on an H200: its numbers too must be the API's.

Prints a line for each check that fails, then how many there were; exit code 1 when one failed."""

import base64
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
checks = failures = 0


def check(what, good, seen=""):
    global checks, failures
    checks += 1
    if not good:
        failures += 1
        print(f"FAIL: {what}: {str(seen)[:300]}")


def call(method, url, body=None, raw=False):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read().decode()
    except urllib.error.HTTPError as e:
        text = e.read().decode()
    return text if raw else json.loads(text)


class Page:
    def __init__(self, driver, browser, profile, dark=False, width=1280):
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                 f"--user-data-dir={profile}", "--window-size=1280,900"]
        made = call("POST", driver + "/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": {"binary": browser, "args": flags}}}})
        self.session = f"{driver}/session/{made['value']['sessionId']}"
        self.look(dark, width)

    def look(self, dark, width):
        self.cdp("Emulation.setEmulatedMedia",
                 {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})
        self.cdp("Emulation.setDeviceMetricsOverride",
                 {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})

    def cdp(self, cmd, params):
        return call("POST", self.session + "/goog/cdp/execute", {"cmd": cmd, "params": params})["value"]

    def open(self, url):
        call("POST", self.session + "/url", {"url": url})
        self.until("return document.body.dataset.ready === '1'")

    def run(self, script, *args):
        return call("POST", self.session + "/execute/sync", {"script": script, "args": list(args)})["value"]

    def until(self, script, *args, seconds=40):
        end = time.time() + seconds
        while time.time() < end:
            got = self.run(script, *args)
            if got is True:
                return True
            time.sleep(0.1)
        check(f"in time: {script}", False, got)
        return False

    def type(self, css, keys, clear=True):
        e = call("POST", self.session + "/element", {"using": "css selector", "value": css})["value"][ELEMENT]
        if clear:
            call("POST", f"{self.session}/element/{e}/clear", {})
        call("POST", f"{self.session}/element/{e}/value", {"text": keys})

    def click(self, css):
        e = call("POST", self.session + "/element", {"using": "css selector", "value": css})["value"][ELEMENT]
        call("POST", f"{self.session}/element/{e}/click", {})

    def choose(self, css, value):
        self.run("const e = document.querySelector(arguments[0]); e.value = arguments[1];"
                 "e.dispatchEvent(new Event('input', {bubbles: true})); e.dispatchEvent(new Event('change', {bubbles: true}))",
                 css, value)

    def picture(self, path):
        size = self.run("return [innerWidth, document.documentElement.scrollHeight]")
        shot = self.cdp("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": {
            "x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}})
        pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))


# What the layout says of itself: nothing outside of its chart, no text too faint, no name missing.
LAYOUT = """
const all = (q) => [...document.querySelectorAll(q)].filter((e) => e.getClientRects().length);
const light = (c) => { const v = c.match(/[\\d.]+/g).map((x) => x / 255 <= 0.04045 ? x / 255 / 12.92 : ((x / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
const ground = getComputedStyle(document.body).backgroundColor;
const contrast = (c) => { const x = light(c), y = light(ground); return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05); };
const inside = (e) => { const a = e.getBoundingClientRect(), b = e.closest('svg').getBoundingClientRect();
  return a.left >= b.left - 2 && a.right <= b.right + 2 && a.top >= b.top - 2 && a.bottom <= b.bottom + 2; };
const named = (e) => e.labels?.length || e.getAttribute('aria-label') || e.textContent.trim();
return { dark: light(ground) < 0.2, scrolls: document.documentElement.scrollWidth > innerWidth,
  outside: all('svg circle, svg text').filter((e) => !inside(e)).map((e) => e.textContent),
  faint: all('p, td, th, label, h1, h2, a').filter((e) => contrast(getComputedStyle(e).color) < 4.5).map((e) => e.textContent.slice(0, 40)),
  unnamed: all('input, select, textarea, button, progress').filter((e) => !named(e)).map((e) => e.outerHTML.slice(0, 80)),
  mute: all('svg').filter((e) => !e.getAttribute('aria-label')).length,
  foreign: performance.getEntriesByType('resource').filter((r) => !r.name.startsWith(location.origin)).length };
"""
CELL = "return [...document.querySelectorAll('#products tbody tr')].find((r) => r.cells[0].textContent === arguments[0])?.cells[1].textContent"
DOT = "return document.querySelector(`#roofline-chart circle[data-format='${arguments[0]}']`)?.dataset.us"


def use_roofline(page, url):
    def api(**more):
        body = {"hardware": "h200", "rows": 4096, "cols": 4096, "format": "nvfp4", "batch": 1, **more}
        return call("POST", url + "api/v1/analyze", body)["predictions"][0]["us"]

    def shows(us):
        page.until(f"return Math.abs(document.querySelector(\"#roofline-chart circle[data-format='nvfp4']\")?.dataset.us - {us!r}) < 1e-9 * {us!r}")
        text = float((page.run(CELL, "nvfp4") or "nan").replace(",", ""))
        check("the table has the API's time", abs(text - us) <= 1e-3 * us, (text, us))

    shows(api())
    page.type("#product [name=rows]", "14336")
    shows(api(rows=14336))
    page.type("#product [name=cols]", "8192")
    shows(api(rows=14336, cols=8192))
    page.type("#product [name=batch]", "\ue014\ue014\ue014", clear=False)  # arrow keys: the slider by keyboard
    shows(api(rows=14336, cols=8192, batch=8))
    page.choose("#hardware", "b200")
    shows(api(rows=14336, cols=8192, batch=8, hardware="b200"))
    page.click("#formats input[value=nf4-dq]")
    page.until("return !document.querySelector(\"#roofline-chart circle[data-format='nf4-dq']\")")
    page.open(url + "?hardware=h100&rows=512&cols=1024&batch=4&formats=nvfp4")
    shows(api(hardware="h100", rows=512, cols=1024, batch=4))
    check("one point for one format", page.run("return document.querySelectorAll('#roofline-chart circle').length") == 1)
    page.open(url)


def use_model(page, url, model):
    def first():
        return page.run("return document.querySelector('#operators tbody td:nth-child(3)')?.textContent")

    page.until("return document.querySelectorAll('#operators tbody tr').length > 5")
    seen = {first()}
    for css, value in (("#step [name=format]", "int8"), ("#step [name=kv]", "fp8-e4m3"), ("#step [name=phase]", "prefill"),
                       ("#step [name=batch]", "4"), ("#step [name=context]", "9")):
        before = page.run("return document.getElementById('operators').textContent")
        page.choose(css, value)
        page.until("return document.getElementById('operators').textContent !== arguments[0]", before)
        seen.add(first())
    want = call("POST", url + "api/v1/predict", {"hardware": "h200", "model": model, "formats": ["int8"], "kv": "fp8-e4m3", "prefill": True,
                                                "batches": [4], "context": 512})["predictions"][0]
    rows = page.run("return [...document.querySelectorAll('#operators tbody tr')].map((r) => [r.cells[0].textContent, r.cells[3].textContent])")
    check("the API's operators", [r[0] for r in rows] == [o["name"] for o in want["operators"]], rows)
    check("their times", all(abs(float(r[1].replace(",", "")) - o["us"]) <= 1e-3 * o["us"] for r, o in zip(rows, want["operators"])), rows)
    config = json.dumps({"model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4,
                         "num_key_value_heads": 2, "vocab_size": 1000})
    page.choose("#model-name", "")
    page.choose("#step [name=config]", config)
    page.until("return document.getElementById('step-total').textContent.includes('llama')")
    page.choose("#model-name", model)


def use_jobs(page, url, model):
    page.choose("#submit [name=verb]", "score")
    page.choose("#submit [name=formats]", "nvfp4:*,mxfp4:*,mxfp6*,int4*,nf4*,int8*")
    page.click("#submit button")
    page.until("return document.querySelectorAll('#job-table tbody tr').length === 1")
    page.until("return document.querySelector('#job-table progress')?.value > 0")
    page.click("#job-table button")  # cancel
    page.until("return ['canceled', 'done'].includes(document.querySelector('#job-table tbody td:nth-child(4)').textContent)")
    page.choose("#submit [name=verb]", "recommend")
    check("fields follow the verb", page.run("return document.querySelector('#submit [name=output]').getClientRects().length") == 0)
    page.choose("#submit [name=formats]", "nvfp4,int8,mxfp6-e2m3")
    page.type("#submit [name=budget]", "6bits\n")
    page.until("return !document.getElementById('frontier-some').hidden", seconds=90)
    page.click("#job-table tbody tr:first-child button")  # result
    page.until("return document.getElementById('result-text').textContent.includes('kerf.advise/1')")
    jobs = call("GET", url + "api/v1/jobs")["jobs"]
    return [j["id"] for j in jobs if j["verb"] == "advise"][0]


def use_frontier(page, url, job):
    page.until("return document.querySelectorAll('#heat rect').length > 4")
    check("the recommendation's own budget changes nothing", "0 of" in page.run("return document.getElementById('solved').textContent"),
          page.run("return document.getElementById('solved').textContent"))
    for bits in ("5.20", "7.00"):
        page.choose("#budget", bits)
        page.until(f"return document.getElementById('budget-out').textContent === '{bits}'")
        want = call("POST", f"{url}api/v1/jobs/{job}/solve", {"bits": float(bits)})
        page.until(f"return Math.abs(document.querySelector('#frontier-chart .now')?.dataset.bits - {want['bits']!r}) < 1e-9")
        got = page.run("return [...document.querySelectorAll('#picks tbody tr')].map((r) => [r.cells[0].textContent, r.cells[1].textContent])")
        check("the API's choice", got == [[p["group"], p["codec"]] for p in want["picks"]], got)
        check("in 50 ms", want["seconds"] < 0.05, want["seconds"])
    page.choose("#across", "us")
    page.until(f"return Math.abs(document.querySelector('#frontier-chart .now')?.dataset.us - {want['us']!r}) < 1e-9 * {want['us']!r}")
    check("the chart says so", "predicted" in page.run("return document.getElementById('frontier-chart').textContent"))
    check("what differs is marked", page.run("return document.querySelectorAll('#heat .changed').length") > 0)


def use_file(page, url, model, path):
    """The page from disk, where nothing can be asked: every control, against the API."""
    page.open("file://" + path)
    check("nothing of a server is shown", page.run("return [...document.querySelectorAll('#jobs, #gpus, #config-label')].every((e) => !e.getClientRects().length)"))
    for shape, batch, keys in (("14336x4096", 8, "\ue014\ue014\ue014"), ("2048x7168", 4, "\ue012")):
        page.choose("#shapes", shape)
        page.type("#product [name=batch]", keys, clear=False)
        rows, cols = map(int, shape.split("x"))
        want = call("POST", url + "api/v1/analyze", {"hardware": "h200", "rows": rows, "cols": cols, "format": "nvfp4", "batch": batch})["predictions"][0]["us"]
        page.until(f"return Math.abs(document.querySelector(\"#roofline-chart circle[data-format='nvfp4']\")?.dataset.us - {want!r}) < 1e-9 * {want!r}")
    page.click("#formats input[value=bf16]")
    page.until("return !document.querySelector(\"#roofline-chart circle[data-format='bf16']\")")
    for css, value in (("#step [name=format]", "int8"), ("#step [name=kv]", "fp8-e4m3"), ("#step [name=phase]", "prefill"), ("#step [name=batch]", "8"), ("#step [name=context]", "14")):
        page.choose(css, value)
    want = call("POST", url + "api/v1/predict", {"hardware": "h200", "model": model, "formats": ["int8"], "kv": "fp8-e4m3", "prefill": True,
                                                "batches": [8], "context": 16384})["predictions"][0]
    us = lambda: page.run("return [...document.querySelectorAll('#operators tbody tr')].map((r) => Number(r.cells[3].textContent.replace(/,/g, '')))")
    near = lambda: len(us()) == len(want["operators"]) and all(abs(u - o["us"]) <= 1e-3 * o["us"] for u, o in zip(us(), want["operators"]))
    end = time.time() + 20
    while not near() and time.time() < end:
        time.sleep(0.1)
    check("the API's operators in the file", near(), us())
    check("the recommendation is there", "0 of" in page.run("return document.getElementById('solved').textContent"))
    page.choose("#budget", "5.20")
    page.until("return document.getElementById('budget-out').textContent === '5.20'")
    page.until("return Number(document.querySelector('#frontier-chart .now')?.dataset.bits) < 5.2005")
    return page.run("return [...document.querySelectorAll('#picks tbody tr')].map((r) => [r.cells[0].textContent, r.cells[1].textContent])")


def look_at(page, pictures, name):
    for dark in (False, True):
        for width in (1280, 390):
            page.look(dark, width)
            said = page.run(LAYOUT)
            where = f"{name}, {'dark' if dark else 'light'} at {width}"
            check(f"{where}: colours", said["dark"] == dark, said)
            for key in ("scrolls", "outside", "faint", "unnamed", "mute", "foreign"):
                check(f"{where}: {key}", not said[key], said[key])
            page.run("scrollTo(0, 0)")
            if pictures:
                page.picture(f"{pictures}/{name}-{'dark' if dark else 'light'}-{width}.png")


def main():
    driver, browser, url, model, path = sys.argv[1:6]
    pictures = sys.argv[6] if len(sys.argv) > 6 else None
    profile = tempfile.mkdtemp()
    process = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    page = None
    try:
        for line in process.stdout:
            if "successfully on port" in line:
                break
        page = Page("http://127.0.0.1:" + line.split("on port")[1].strip(" .\n"), browser, profile)
        page.open(url)
        use_roofline(page, url)
        use_model(page, url, model)
        job = use_jobs(page, url, model)
        use_frontier(page, url, job)
        page.until("return document.querySelectorAll('#gpu-table tbody tr').length === 2")
        look_at(page, pictures, "page")
        check("no problem is shown", page.run("return document.getElementById('problem').hidden"),
              page.run("return document.getElementById('problem').textContent"))
        served = call("POST", f"{url}api/v1/jobs/{job}/solve", {"bits": 5.2})["picks"]
        picks = use_file(page, url, model, path)
        check("the file solves as the server does", picks == [[p["group"], p["codec"]] for p in served], picks)
        look_at(page, pictures, "file")
        check("no problem is shown in the file", page.run("return document.getElementById('problem').hidden"))
    finally:
        if page:
            call("DELETE", page.session, raw=True)
        process.terminate()
        process.wait()
        subprocess.run(["rm", "-rf", profile], check=False)
    print(f"{checks} checks of the page, {failures} failed")
    return 1 if failures or not checks else 0


if __name__ == "__main__":
    sys.exit(main())
