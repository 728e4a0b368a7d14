// An editor in place of each textarea marked data-editor. The textarea stays, hidden: the form sends its value.
// Its language is Python, or what the select named by the textarea's data-language-from says.
// Inside a shadow root CodeMirror keeps its styles in constructed sheets; the page's policy refuses style elements.

// @ts-types="../../../../deploy/editor/codemirror.d.ts"
import {
  bracketMatching,
  closeBrackets,
  closeBracketsKeymap,
  Compartment,
  defaultKeymap,
  drawSelection,
  EditorState,
  EditorView,
  highlightSpecialChars,
  HighlightStyle,
  history,
  historyKeymap,
  indentOnInput,
  indentUnit,
  indentWithTab,
  keymap,
  lineNumbers,
  modes,
  python,
  StreamLanguage,
  syntaxHighlighting,
  tags,
} from "../vendor/codemirror-6.43.15/codemirror.js";
import { find } from "./dom.js";

const LINE_EM = 1.55;

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.bool, tags.null, tags.operatorKeyword], color: "var(--code-keyword)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--code-string)" },
  { tag: tags.comment, color: "var(--code-comment)" },
  { tag: tags.number, color: "var(--code-number)" },
  { tag: [tags.function(tags.definition(tags.variableName)), tags.className], color: "var(--code-name)" },
  { tag: tags.standard(tags.variableName), color: "var(--code-builtin)" },
  { tag: tags.meta, color: "var(--code-decorator)" },
]);

/**
 * The editor's styles; it is at least as high as `rows` lines.
 *
 * @param {number} rows
 */
function theme(rows) {
  return EditorView.theme({
    "&": { color: "var(--ink)", backgroundColor: "var(--surface)", fontSize: "0.8125rem" },
    "&.cm-focused": { outline: "none" },
    ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: String(LINE_EM), maxHeight: "32rem" },
    ".cm-content, .cm-gutter": { minHeight: `${rows * LINE_EM}em` },
    ".cm-content": { caretColor: "var(--ink)" },
    ".cm-cursor": { borderLeftColor: "var(--ink)" },
    ".cm-gutters": { color: "var(--muted)", backgroundColor: "var(--sunken)", borderRight: "1px solid var(--line)" },
    "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
      backgroundColor: "var(--drafted)",
    },
    "&.cm-focused .cm-matchingBracket": {
      backgroundColor: "var(--accent-soft)",
      outline: "1px solid var(--line-strong)",
    },
  });
}

/** @param {string} language */
function highlighter(language) {
  return language in modes ? StreamLanguage.define(modes[language]) : python();
}

/** @param {HTMLTextAreaElement} area */
function replace(area) {
  const select = document.getElementById(area.dataset.languageFrom ?? "");
  const source = select instanceof HTMLSelectElement ? select : null;
  const language = new Compartment();
  const label = find(document, `label[for="${area.id}"]`, HTMLLabelElement);
  const host = document.createElement("div");
  host.className = area.getAttribute("aria-invalid") ? "editor invalid" : "editor";
  const root = host.attachShadow({ mode: "open" });
  const view = new EditorView({
    parent: root,
    root,
    state: EditorState.create({
      doc: area.value,
      extensions: [
        lineNumbers(),
        EditorView.lineWrapping,
        highlightSpecialChars(),
        history(),
        drawSelection(),
        indentUnit.of("    "),
        indentOnInput(),
        bracketMatching(),
        closeBrackets(),
        language.of(highlighter(source?.value ?? "python")),
        syntaxHighlighting(colours),
        keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, indentWithTab]),
        EditorView.contentAttributes.of({
          "aria-label": label.textContent,
          spellcheck: "false",
          autocapitalize: "off",
        }),
        EditorView.updateListener.of((/** @type {any} */ update) => {
          if (update.docChanged) area.value = update.state.doc.toString();
        }),
        theme(area.rows),
      ],
    }),
  });
  source?.addEventListener("change", () => {
    view.dispatch({ effects: language.reconfigure(highlighter(source.value)) });
  });
  const hadFocus = document.activeElement === area; // someone types already
  area.before(host);
  area.hidden = true;
  if (hadFocus) {
    view.dispatch({ selection: { anchor: area.selectionStart } });
    view.focus();
  }
  label.removeAttribute("for"); // the editor has the label as its name now
  label.addEventListener("click", () => view.focus());
}

for (const area of document.querySelectorAll("textarea[data-editor]")) {
  if (area instanceof HTMLTextAreaElement) replace(area);
}
