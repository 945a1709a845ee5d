// A plugin for Prettier: lays out the html`...` templates of htm. Prettier itself leaves them as they are.
//
// An element stands on one line if it fits, otherwise its children stand on lines of their own. htm removes whitespace
// around a line break beside a tag or a value; a space that must remain there is written as ${" "}.

import { doc } from "prettier";
import * as estree from "prettier/plugins/estree";

const { fill, group, ifBreak, indent, label, line, softline } = doc.builders;
const SPACE = " \t\r\n";
const SPACES = /[ \t\r\n]+/;
const QUOTES = ['"', "'"];
const KEPT_SPACE = '${" "}';

/** Reads the parts of a template: characters, and values as {value: number}. */
class Reader {
  constructor(texts) {
    this.signs = texts.flatMap((text, at) => (at ? [{ value: at - 1 }, ...text] : [...text]));
    this.at = 0;
  }

  get next() {
    return this.signs[this.at];
  }

  take() {
    this.at += 1;
    return this.signs[this.at - 1];
  }

  starts(text) {
    return [...text].every((sign, at) => this.signs[this.at + at] === sign);
  }

  /** Everything up to a sign for which `isEnd` is true: strings and values. */
  until(isEnd) {
    const parts = [];
    while (this.at < this.signs.length && !isEnd(this.next)) {
      const sign = this.take();
      if (typeof sign === "string" && typeof parts.at(-1) === "string") parts[parts.length - 1] += sign;
      else parts.push(sign);
    }
    return parts;
  }

  skipSpace() {
    while (SPACE.includes(this.next)) this.at += 1;
  }
}

/** The elements, values and texts up to the end of the template or of the parent element. */
function readNodes(reader) {
  const nodes = [];
  while (reader.at < reader.signs.length && !reader.starts("</")) {
    if (reader.next === "<") nodes.push(readElement(reader));
    else nodes.push(...reader.until((sign) => sign === "<").map((part) => (typeof part === "string" ? { text: part } : part)));
  }
  return nodes;
}

function readElement(reader) {
  reader.take();
  const name = reader.until((sign) => SPACE.includes(sign) || sign === "/" || sign === ">");
  const attributes = [];
  for (;;) {
    reader.skipSpace();
    if (reader.next === "/" || reader.next === ">") break;
    attributes.push(readAttribute(reader));
  }
  if (reader.take() === "/") {
    reader.take();
    return { name, attributes, children: null };
  }
  const children = readNodes(reader);
  reader.until((sign) => sign === ">");
  if (reader.take() !== ">") throw new Error("an element of a template is not closed");
  return { name, attributes, children };
}

function readAttribute(reader) {
  const parts = reader.until((sign) => SPACE.includes(sign) || sign === "/" || sign === ">" || QUOTES.includes(sign));
  if (!QUOTES.includes(reader.next)) return parts;
  const quote = reader.take();
  const text = reader.until((sign) => sign === quote);
  return [...parts, quote, ...text, reader.take()];
}

/** The words, elements and values of some nodes, and for each whether a space stands before it, and one after the last. */
function itemsOf(nodes, isSpace) {
  const items = [];
  let gap = false;
  const add = (item) => {
    items.push({ ...item, gap });
    gap = false;
  };
  nodes.forEach((node, at) => {
    if (node.text === undefined) {
      if (node.value !== undefined && isSpace(node)) gap = true;
      else add(node);
      return;
    }
    const text = node.text.replace(/^[ \t\r]*\n[ \t\r\n]*|[ \t\r\n]*\n[ \t\r]*$/g, "");
    text.split(SPACES).forEach((word, number) => {
      if (number) gap = true;
      if (word) add({ word });
    });
  });
  return { items, gap };
}

function printTemplate(texts, values, isSpace) {
  const print = (part) => (typeof part === "string" ? part : values[part.value]);

  const printElement = ({ name, attributes, children }) => {
    const shown = attributes.map((attribute) => [line, attribute.map(print)]);
    const tag = ["<", name.map(print), indent(shown)];
    if (!children) return group([tag, line, "/>"]);
    const open = group([tag, attributes.length ? softline : "", ">"]);
    return group([open, printChildren(children), "</", name.map(print), ">"]);
  };

  const printItem = (item) => item.word ?? (item.name ? printElement(item) : print(item));

  const printChildren = (nodes) => {
    const { items, gap } = itemsOf(nodes, isSpace);
    if (!items.length) return gap ? KEPT_SPACE : "";
    const kept = ifBreak([KEPT_SPACE, softline], " ");
    const hasWords = items.some((item) => item.word);
    const parts = items.flatMap((item, at) => {
      if (!at) return [printItem(item)];
      if (!item.gap) return [softline, printItem(item)];
      return [item.word && items[at - 1].word ? line : kept, printItem(item)];
    });
    const first = items[0].gap ? kept : "";
    return [indent([softline, first, hasWords ? fill(parts) : parts]), gap ? ifBreak(KEPT_SPACE, " ") : "", softline];
  };

  const reader = new Reader(texts);
  const nodes = readNodes(reader);
  if (reader.at < reader.signs.length) throw new Error("a template closes an element that it did not open");
  return group(["`", printChildren(nodes), "`"]);
}

const isTemplate = (node) => node.type === "TaggedTemplateExpression" && node.tag.name === "html";

function embed(path) {
  const { node, parent } = path;
  if (node.type !== "TemplateLiteral" || !isTemplate(parent)) return undefined;
  return async (_, print) => {
    const values = path.map(print, "expressions").map((value) => ["${", value, "}"]);
    const texts = node.quasis.map((quasi) => quasi.value.raw);
    const printed = printTemplate(texts, values, ({ value }) => node.expressions[value].value === " ");
    return label({ embed: true }, printed); // so that "=>" and "return" stand on the line on which it begins
  };
}

/** As Prettier prints it, but a condition stands on the line on which its template begins. */
function print(path, options, printPart, ...more) {
  const { node } = path;
  if (node.type === "LogicalExpression" && node.operator === "&&" && isTemplate(node.right)) {
    return [printPart("left"), " && ", printPart("right")];
  }
  return estree.printers.estree.print(path, options, printPart, ...more);
}

export const printers = { estree: { ...estree.printers.estree, embed, print } };
