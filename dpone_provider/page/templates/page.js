(() => {
  const root = document.documentElement;
  let frame = null;
  try {
    frame = window.parent === window ? null : window.parent.document;
  } catch {
    frame = null; // framed by another origin
  }
  const prefers = matchMedia("(prefers-color-scheme: dark)");
  const paint = () => {
    const dark = frame ? frame.documentElement.classList.contains("dark") : prefers.matches;
    root.classList.toggle("dark", dark);
    root.classList.toggle("light", !dark);
    const behind = frame ? getComputedStyle(frame.documentElement).backgroundColor : "";
    if (behind && behind !== "rgba(0, 0, 0, 0)") {
      root.style.setProperty("--page", behind);
    }
  };
  paint();
  prefers.addEventListener("change", paint);
  if (frame) {
    new MutationObserver(paint).observe(frame.documentElement, { attributeFilter: ["class"] });
  }
  const seconds = Number(root.dataset.refresh);
  const reads = () => document.querySelector("details[open]") || String(getSelection());
  if (seconds) {
    setInterval(() => document.hidden || reads() || location.reload(), seconds * 1000);
  }
})();
