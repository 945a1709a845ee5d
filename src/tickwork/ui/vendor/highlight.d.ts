// A tree of tokens: texts, and nodes with a scope.
export type Token = { scope?: string; children: (string | Token)[] };
export function tokens(text: string, language: string): Token;
