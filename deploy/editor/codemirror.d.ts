// What the bundle of entry.js exports, for the type check of the pages' scripts. CodeMirror's own types are on npm only.

export const Compartment: any;
export const EditorState: any;
export const EditorView: any;
export const HighlightStyle: any;
export const StreamLanguage: any;
export const bracketMatching: any;
export const closeBrackets: any;
export const closeBracketsKeymap: any;
export const defaultKeymap: any;
export const drawSelection: any;
export const highlightSpecialChars: any;
export const history: any;
export const historyKeymap: any;
export const indentOnInput: any;
export const indentUnit: any;
export const indentWithTab: any;
export const keymap: any;
export const lineNumbers: any;
export const modes: Record<string, any>;
export const python: any;
export const syntaxHighlighting: any;
export const tags: any;
