// Code and JSON with syntax highlighting. Tokens become text nodes; no text is ever parsed as HTML.

import { html, useEffect, useState } from "../vendor/core.js";
import { CopyButton } from "./copy-button.js";

const LIMIT = 60_000; // characters; longer texts are not highlighted

/** @param {{text: string, language?: string, copy?: boolean, wrap?: boolean}} props */
export function Code({ text, language = "python", copy = true, wrap = false }) {
  const [paint, setPaint] = useState(/** @type {any} */ (null));
  useEffect(() => {
    let isGone = false;
    if (text.length <= LIMIT && language !== "text") {
      import("../vendor/highlight.js").then((painter) => !isGone && setPaint(() => painter.tokens));
    }
    return () => void (isGone = true);
  }, [text, language]);
  return html`
    <div class="code ${wrap ? "wrap" : ""}">
      <pre tabindex="0"><code>${paint ? painted(paint(text, language)) : text}</code></pre>
      ${copy && html`<${CopyButton} text=${text} />`}
    </div>
  `;
}

function painted(node) {
  return node.children.map((one) =>
    typeof one === "string"
      ? one
      : html`<span class="tok-${String(one.scope || "").split(".")[0]}">${painted(one)}</span>`,
  );
}
