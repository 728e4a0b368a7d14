// Loads the editor once the page has been painted: it is larger than everything else on the page.

requestAnimationFrame(() => setTimeout(() => import("./editor.js")));
