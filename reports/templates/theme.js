"use strict";
/** A sentence in the language of the page, {names} filled in; what has no translation stands as it is. */
const WORDS = JSON.parse(document.getElementById("words").textContent);
const say = (text, values = {}) => (WORDS[text] ?? text).replace(/\{(\w+)\}/g, (all, name) => values[name] ?? all);
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);
  const label = () => { button.textContent = isDark() ? say("Light") : say("Dark"); };
  try {
    const kept = localStorage.getItem("firstfault-theme");
    if (kept === "dark" || kept === "light") root.dataset.theme = kept;
  } catch { /* some browsers keep nothing for files: then the system's choice holds */ }
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("firstfault-theme", root.dataset.theme); } catch { /* as above */ }
    label();
  });
  prefersDark.addEventListener("change", label);
  label();
})();
