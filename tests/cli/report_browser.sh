#!/usr/bin/env bash
# report_browser.sh - the HTML report in headless Chromium, light and dark, wide and narrow: what a
# person would see is asked of the layout. Skipped where there is no Chromium.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
[ -n "$browser" ] || { echo "skipped: no chromium" && exit 77; }

expect 0 advise "$model" --budget 5bits --hardware h200 -f 'nvfp4,int4-g32-asym,mxfp6-e2m3,int8' \
    --report "$tmp/r.html"

# Puts what the layout says into the title, as key=value.
cat >"$tmp/probe" <<'END'
<script>
const all = (q) => [...document.querySelectorAll(q)];
const light = (c) => { const whole = c.startsWith('color(') ? 1 : 255; // as color-mix() is computed
                       const v = c.match(/[\d.]+/g).map((x) => x * 255 / whole).map((x) => x / 255 <= 0.04045 ? x / 255 / 12.92 : ((x / 255 + 0.055) / 1.055) ** 2.4);
                       return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
const contrast = (a, b) => { const x = light(a), y = light(b); return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05); };
const ground = getComputedStyle(document.body).backgroundColor;
const inside = (e, s) => { const a = e.getBoundingClientRect(), b = s.getBoundingClientRect();
                           return a.left >= b.left - 1 && a.right <= b.right + 1 && a.top >= b.top - 1 && a.bottom <= b.bottom + 1; };
const drawn = (e) => { const r = e.getBoundingClientRect(); return r.width > 0 && r.height > 0; };
const said = {
    dark: light(ground) < 0.2 ? 1 : 0,
    charts: all('svg').filter(drawn).length,
    outside: all('svg text, svg circle, svg rect').filter((e) => !inside(e, e.closest('svg'))).length,
    faint: all('p, dt, dd, td, th, h1, h2').filter((e) => contrast(getComputedStyle(e).color, ground) < 4.5).length
        + all('svg text:not(.num)').filter((e) => contrast(getComputedStyle(e).fill, ground) < 4.5).length
        + all('svg .num').filter((e) => contrast(getComputedStyle(e).fill, getComputedStyle(e.previousElementSibling).fill) < 4.5).length,
    numbers: all('svg .num').length,
    blank: all('rect').filter((e) => getComputedStyle(e).fill === 'none').length,
    shades: new Set(all('rect').map((e) => getComputedStyle(e).fill)).size,
    fetched: performance.getEntriesByType('resource').length,
    rows: all('table tr').length,
    scrolls: document.documentElement.scrollWidth > innerWidth ? 1 : 0,
};
document.title = Object.entries(said).map(([k, v]) => k + '=' + v).join(' ');
</script>
END
cat "$tmp/r.html" "$tmp/probe" >"$tmp/probed.html"

look() { # SCHEME WIDTH: what the layout says, in $said
    said=$(timeout 120 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$tmp/profile" \
        --window-size="$2",900 --blink-settings=preferredColorScheme="$1" --dump-dom \
        "file://$tmp/probed.html" 2>"$tmp/browser" | sed -n 's/.*<title>\(.*\)<\/title>.*/\1/p')
}
says() { # KEY=VALUE
    check "$scheme at $width: $1 in '$said'" grep -qw -- "$1" <<<"$said"
}

# The first screen: the verdict before any chart, what to run next, the version; numbers in the map.
for words in '<p class="verdict">tiny-llama takes <b>[0-9.]* MiB</b> instead of 7.00 MiB' '<b>[0-9]* to [0-9]* tokens/s</b>' \
    'Limits: 5 bits per weight holds' 'Expected loss: ' 'kerf quantize .* --recipe' 'kerf [0-9.]*, 20[0-9-]*' \
    'class="num"' 'sensitive of\|would save'; do
    check "says $words" grep -q -- "$words" "$tmp/r.html"
done
check "the verdict comes first" test "$(grep -n 'class="verdict"' "$tmp/r.html" | head -1 | cut -d: -f1)" -lt "$(grep -n '<svg' "$tmp/r.html" | head -1 | cut -d: -f1)"
timeout 120 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$tmp/profile" --no-pdf-header-footer \
    --print-to-pdf="$tmp/r.pdf" "file://$tmp/r.html" 2>/dev/null
check "two pages on paper" test "$(grep -ac '/Type */Page\b' "$tmp/r.pdf")" -eq 2

for width in 1280 500; do
    for scheme in light dark; do
        look $([ $scheme = dark ] && echo 0 || echo 1) $width
        says "dark=$([ $scheme = dark ] && echo 1 || echo 0)"
        says charts=5
        says outside=0
        says faint=0
        says blank=0
        says fetched=0
        says rows=17
        says scrolls=0
        check "$scheme at $width: shades" awk -v s="$said" 'BEGIN { sub(/.*shades=/, "", s); exit !(s + 0 >= 4) }'
    done
done
finish
