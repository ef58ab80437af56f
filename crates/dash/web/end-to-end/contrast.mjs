// Text whose contrast is less than WCAG's AA asks for. Runs in the page.

export function lowContrast() {
  const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
  // Whatever form a colour has, a canvas knows it.
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
  const luminance = ([r, g, b]) => {
    const part = (value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const behind = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const color = rgba(getComputedStyle(at).backgroundColor);
      layers.push(color);
      if (color[3] === 1) break;
    }
    return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255, 1]);
  };
  const low = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement;
    if (!element || walk.currentNode.textContent.trim() === '' || element.closest('noscript, script, style, :disabled')) continue;
    // What is off says so by being faint; WCAG leaves it out.
    if (element.closest('.off') || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const svg = element.closest('svg');
    const back = behind(svg ?? element);
    const front = over(rgba(svg ? style.fill : style.color), back);
    const [a, b] = [luminance(front), luminance(back)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) low.add(`${element.tagName.toLowerCase()}.${element.className?.baseVal ?? element.className} ${ratio.toFixed(2)} "${walk.currentNode.textContent.trim().slice(0, 20)}"`);
  }
  return [...low];
}
