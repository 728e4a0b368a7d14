// The budget slider of a study.

import { followBudget } from "./budget_slider.js";

const form = document.getElementById("study-budget");
if (form instanceof HTMLFormElement) followBudget(form, Infinity);
