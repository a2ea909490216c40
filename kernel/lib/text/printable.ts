/** Text of others in lines for people and terminals: a line break in a name would forge a line, an escape sequence would act on the terminal. */

/** C0 and C1 controls, DEL, line and paragraph separators, and what changes the direction or the joining of text around it. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu
/** A surrogate without its other half: what it is written as depends on the reader. */
const LONE = /\p{Surrogate}/gu

/** With such characters as JSON writes them: `\n`, `\u001b`. Inside a JSON string it stays the same string. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, escaped).replace(LONE, escaped)
}

const SHORT: Record<string, string> = { '\n': '\\n', '\r': '\\r', '\t': '\\t', '\b': '\\b', '\f': '\\f' }

function escaped(character: string): string {
  let text = SHORT[character] ?? ''
  if (text === '') for (let i = 0; i < character.length; i++) text += `\\u${character.charCodeAt(i).toString(16).padStart(4, '0')}`
  return text
}
