// The page of a single completion: follows it while it runs.

import { follow } from "./completion-live.js";

const completion = document.querySelector("[data-completion]");
if (completion instanceof HTMLElement) follow(completion);
