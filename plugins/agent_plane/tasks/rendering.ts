/** Texts of tasks as they may be shown: what cannot be seen, or changes the direction of what can, is written out. */
import type { Json, Task, TaskRendering, Withheld } from 'svcdb/agents'
import { mixedWords } from './scripts.ts'

/**
 * By what Unicode says of a code point: ignorable, a control of direction, a control, format, private or unassigned one, a space; and signs whose glyph is
 * blank, of which Unicode says nothing else. A space, a tab and the end of a line are seen.
 */
const HIDDEN = /[[\p{Default_Ignorable_Code_Point}\p{Bidi_Control}\p{C}\p{Z}\u2800\u{13441}\u{13442}\u{16FE4}\u{1D159}]--[ \t\n]]|\\(?=u\{[0-9A-Fa-f]{1,6}\})/gv

/** One text only gives what this gives: a backslash that looks like the beginning of an escape is escaped. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (character) => `\\u{${(character.codePointAt(0) as number).toString(16).toUpperCase()}}`)
}

class Renderer {
  escaped = false
  readonly mixed: NonNullable<TaskRendering['mixed_script']> = []

  text(at: string, value: string): string {
    for (const { word, scripts } of mixedWords(value)) this.mixed.push({ at: visible(at), word: visible(word), scripts })
    const shown = visible(value)
    this.escaped ||= shown !== value
    return shown
  }

  json(at: string, value: Json): Json {
    if (typeof value === 'string') return this.text(at, value)
    if (typeof value !== 'object' || value === null) return value
    if (Array.isArray(value)) return value.map((one, index) => this.json(`${at}/${index}`, one))
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [this.text(`${at}/${name}`, name), this.json(`${at}/${name}`, one)]))
  }
}

export function rendered({ justification }: Task, withheld: Withheld | undefined): TaskRendering {
  const renderer = new Renderer()
  const { summary, proposed_action: action, cost, evidence, reach } = justification
  const texts = {
    summary: renderer.text('summary', summary.value),
    ...(cost === undefined ? {} : { cost: renderer.text('cost', cost.value) }),
    ...(evidence.length === 0 ? {} : { evidence: evidence.map(({ value }, index) => renderer.text(`evidence/${index}`, value)) }),
    proposed_action: withheld === undefined ? renderer.json('proposed_action', action) : null,
    ...(reach === undefined ? {} : { reach: renderer.json('reach', reach) }),
  }
  return {
    ...texts,
    escaped: renderer.escaped,
    ...(renderer.mixed.length === 0 ? {} : { mixed_script: renderer.mixed }),
    ...(withheld === undefined ? {} : { withheld }),
  }
}
