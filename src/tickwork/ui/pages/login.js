// The login form: a name and password, or a key.

import { html, useState } from "../vendor/core.js";
import { logIn } from "../lib/session.js";
import { Refusal } from "../parts/dialog.js";
import { Icon } from "../parts/icon.js";

export default function Login() {
  const [kind, setKind] = useState("user");
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [isBusy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    const said = Object.fromEntries(new FormData(event.target));
    setBusy(true);
    try {
      await logIn(/** @type {any} */ (kind === "user" ? said : { token: String(said.token).trim() }));
    } catch (refused) {
      setProblem(refused);
      setBusy(false);
    }
  };
  return html`
    <main class="login">
      <form onSubmit=${submit} aria-label="Log in">
        <h1><img src=${new URL("../icon.svg", import.meta.url).pathname} alt="" width="28" height="28" />Tickwork</h1>
        <div class="choice" role="group" aria-label="Log in with">
          <button type="button" aria-pressed=${kind === "user"} onClick=${() => setKind("user")}>
            Name and password
          </button>
          <button type="button" aria-pressed=${kind === "token"} onClick=${() => setKind("token")}>Key</button>
        </div>
        ${kind === "user"
          ? html`
              <label class="field">
                <span>Name</span>
                <input name="user" autocomplete="username" required autofocus />
              </label>
              <label class="field">
                <span>Password</span>
                <input name="password" type="password" autocomplete="current-password" required />
              </label>
            `
          : html`
              <label class="field">
                <span>Key or token</span>
                <input name="token" type="password" autocomplete="off" required autofocus placeholder="twk_…" />
              </label>
            `}
        ${problem && html`<${Refusal} problem=${problem} />`}
        <button class="main" disabled=${isBusy}><${Icon} name="arrow-right" />Log in</button>
        <p class="hint dim">
          ${kind === "user"
            ? html`<span>No account?</span><code>tickwork users add NAME --role viewer</code>`
            : html`
                <span>Use the token that <code>tickwork dev</code> prints, or a key:</span>
                <code>tickwork keys create NAME --scope read</code>
              `}
        </p>
      </form>
    </main>
  `;
}
