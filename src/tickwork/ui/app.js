// The application: checks the session, renders the frame, and loads the page that the URL names.

import { effect, html, render, useEffect, useState } from "./vendor/core.js";
import { failedUnseen, listen, state, stop } from "./lib/live.js";
import { match, place } from "./lib/router.js";
import { begin, recheck, session } from "./lib/session.js";
import { TEXTS } from "./texts/common.js";
import { Frame } from "./parts/app-shell.js";
import { Loading, Trouble } from "./parts/loading-and-errors.js";
import { ROUTES } from "./routes.js";

/** The files of a page could not be loaded: the server was updated or does not answer. */
const UNLOADED = {
  status: -1,
  message: TEXTS.pageFilesGone,
};

const AGAIN_MS = 3000;

function found() {
  for (const route of ROUTES) {
    const params = match(route.path, place.value.path);
    if (params) return { route, params };
  }
  return null;
}

function Shown() {
  const at = found();
  const [loaded, setLoaded] = useState({
    route: /** @type {any} */ (null),
    page: /** @type {any} */ (null),
    problem: /** @type {any} */ (null),
  });
  useEffect(() => {
    if (!at) return undefined;
    let isLeft = false; // ignore a page that arrives after the user has left it
    at.route.load().then(
      (module) => isLeft || setLoaded({ route: at.route, page: module.default, problem: null }),
      () => isLeft || setLoaded({ route: at.route, page: null, problem: UNLOADED }),
    );
    return () => void (isLeft = true);
  }, [at?.route]);
  if (!at) return html`<${Trouble} problem=${{ status: 404, message: TEXTS.noSuchPage(place.value.path) }} />`;
  if (loaded.route !== at.route) return html`<${Loading} />`;
  if (loaded.problem) return html`<${Trouble} problem=${loaded.problem} onRetry=${() => location.reload()} />`;
  return html`<${Guarded} key=${place.value.path}><${loaded.page} params=${at.params} /></${Guarded}>`;
}

/** A page, or its error: an error in one page leaves the navigation usable. @this {any} */
function Guarded({ children }) {
  const [fault, setFault] = useState(/** @type {any} */ (null));
  this.componentDidCatch = (error) => {
    console.error(error);
    setFault(error);
  };
  if (!fault) return children;
  return html`
    <${Trouble} problem=${{ status: -2, message: `${fault.name}: ${fault.message}` }} onRetry=${() => setFault(null)} />
  `;
}

function App() {
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const start = () => begin().then(() => setProblem(null), setProblem);
  useEffect(() => void start(), []);
  useEffect(() => {
    if (!problem) return undefined;
    const timer = setTimeout(start, AGAIN_MS);
    return () => clearTimeout(timer);
  }, [problem]);
  if (problem) return html`<${Trouble} problem=${problem} onRetry=${start} />`;
  if (session.value === undefined) return html`<${Loading} />`;
  if (session.value === null) return html`<${Login} />`;
  return html`<${Frame}><${Shown} /></${Frame}>`;
}

function Login() {
  const [page, setPage] = useState(/** @type {any} */ (null));
  const [isLost, setLost] = useState(false);
  useEffect(
    () =>
      void import("./pages/login.js").then(
        (module) => setPage(() => module.default),
        () => setLost(true),
      ),
    [],
  );
  if (isLost) return html`<${Trouble} problem=${UNLOADED} onRetry=${() => location.reload()} />`;
  return page ? html`<${page} />` : html`<${Loading} />`;
}

effect(() => (session.value ? listen() : stop()));
effect(() => void (state.value === "off" && session.peek() && recheck()));

// Show failures on the tab's icon while the page is in the background.
effect(() => {
  const icon = /** @type {HTMLLinkElement} */ (document.querySelector("link[rel=icon]"));
  const wanted = failedUnseen.value ? "icon-failing.svg" : "icon.svg";
  icon.href = new URL(wanted, import.meta.url).href;
  document.title = document.title.replace(/^\(\d+\) /, failedUnseen.value ? `(${failedUnseen.value}) ` : "");
  if (failedUnseen.value && !document.title.startsWith("(")) {
    document.title = `(${failedUnseen.value}) ${document.title}`;
  }
});

render(html`<${App} />`, document.getElementById("app"));
