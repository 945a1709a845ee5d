// Shell commands that create a hook and send a signed test message to it.

import { parse, stringify } from "../lib/lossless-json.js";
import { quoted } from "../parts/copy-button.js";

/** Whether a shell would treat a text specially. @param {string} text */
function isJson(text) {
  try {
    parse(text);
    return true;
  } catch {
    return false;
  }
}

/** @param {string} name @param {any} spec */
export function commandOf(name, spec) {
  const said = [
    "tickwork hooks add",
    quoted(name),
    "--style",
    spec.style,
    "--secret",
    quoted(secretName(spec.secret)),
    spec.dag ? "--dag" : "--task",
    quoted(spec.dag || spec.task),
  ];
  for (const [key, value] of Object.entries(spec.args || {})) {
    said.push("--arg", quoted(`${key}=${typeof value === "string" && !isJson(value) ? value : stringify(value)}`));
  }
  for (const event of spec.events || []) said.push("--event", quoted(event));
  if (spec.key) said.push("--key", quoted(spec.key));
  if (spec.window) said.push("--window", quoted(spec.window));
  return said.join(" ");
}

/** NAME of `${secret.NAME}`, or NAME. @param {string} said */
export const secretName = (said) => /^\$\{\s*secret\.(\w+)\s*\}$/.exec(said)?.[1] || said;

/** A sample body with all fields that the hook uses. @param {any} spec */
export function bodyOf(spec) {
  /** @type {Record<string, any>} */
  const body =
    spec.style === "github"
      ? {}
      : { ...(spec.style === "stripe" && { id: "evt_1" }), type: spec.events?.[0] || "test" };
  const asked = `${JSON.stringify(spec.args || {})} ${spec.key || ""}`;
  for (const [, path] of asked.matchAll(/\$\{\s*body\.([\w.-]+)\s*\}/g)) place(body, path.split("."));
  return body;
}

function place(body, names) {
  let at = body;
  for (const name of names.slice(0, -1)) {
    if (at[name] === null || typeof at[name] !== "object") at[name] = {};
    at = at[name];
  }
  at[names.at(-1)] ??= "…";
}

/** @param {string} url @param {any} spec */
export function sampleOf(url, spec) {
  const isTimed = spec.style !== "github";
  const header = {
    github: "X-Hub-Signature-256: sha256=$signature",
    stripe: "Stripe-Signature: t=$at,v1=$signature",
    generic: "X-Tickwork-Signature: t=$at,v1=$signature",
  }[spec.style];
  const event = isTimed ? "" : `-H ${quoted(`X-GitHub-Event: ${spec.events?.[0] || "push"}`)} `;
  const signed = isTimed ? "$at.$body" : "$body";
  return [
    `body=${quoted(JSON.stringify(bodyOf(spec)))}${isTimed ? " at=$(date +%s)" : ""}`,
    `signature=$(printf %s "${signed}" | openssl dgst -sha256 -hmac "$SECRET" -hex | sed 's/.* //')`,
    `curl -sS -H "${header}" ${event}-H 'Content-Type: application/json' \\`,
    `  -d "$body" ${quoted(url)}`,
  ].join("\n");
}
