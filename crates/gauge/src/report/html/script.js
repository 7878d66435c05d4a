(function () {
  var root = document.documentElement, button = document.getElementById("theme");
  var dark = function () {
    return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  var name = function () { button.textContent = dark() ? "Light" : "Dark"; };
  button.hidden = false;
  button.addEventListener("click", function () { root.dataset.theme = dark() ? "light" : "dark"; name(); });
  name();
  // A link to a row leads into what is folded.
  var reveal = function () {
    var target = location.hash.length > 1 ? document.getElementById(location.hash.slice(1)) : null;
    for (var around = target && target.parentElement; around; around = around.parentElement) {
      if (around.tagName === "DETAILS") { around.open = true; }
    }
    if (target) { target.scrollIntoView(); }
  };
  addEventListener("hashchange", reveal);
  reveal();
  // On paper nothing can be unfolded.
  addEventListener("beforeprint", function () {
    document.querySelectorAll("details:not([open])").forEach(function (one) { one.open = true; one.dataset.folded = ""; });
  });
  addEventListener("afterprint", function () {
    document.querySelectorAll("details[data-folded]").forEach(function (one) { one.open = false; delete one.dataset.folded; });
  });
})();
