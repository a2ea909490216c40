/** Texts of tasks as they may be shown: what cannot be seen, or changes the direction of what can, is written out. */
import type { Json, Task, TaskRendering, Withheld } from 'svcdb/agents'
import type { Work } from 'svcdb/lib/event-loop'
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

  private shown(value: string): string {
    const shown = visible(value)
    this.escaped ||= shown !== value
    return shown
  }

  *text(at: string, value: string): Work<string> {
    for (const { word, scripts } of yield* mixedWords(value)) this.mixed.push({ at: visible(at), word: visible(word), scripts })
    yield
    return this.shown(value)
  }

  *json(at: string, value: Json): Work<Json> {
    if (typeof value === 'string') return yield* this.text(at, value)
    if (typeof value !== 'object' || value === null) return value
    if (Array.isArray(value)) {
      const shown: Json[] = []
      for (const [index, one] of value.entries()) shown.push(yield* this.json(`${at}/${index}`, one))
      return shown
    }
    const members: [string, Json][] = []
    for (const [name, one] of Object.entries(value)) members.push([yield* this.text(`${at}/${name}`, name), yield* this.json(`${at}/${name}`, one)])
    return Object.fromEntries(members)
  }
}

/** In turns: texts come from anywhere, and a page of them is long. */
export function* rendered({ justification }: Task, withheld: Withheld | undefined): Work<TaskRendering> {
  const renderer = new Renderer()
  const { summary, proposed_action: action, cost, evidence, reach } = justification
  const shown: string[] = []
  const texts = {
    summary: yield* renderer.text('summary', summary.value),
    ...(cost === undefined ? {} : { cost: yield* renderer.text('cost', cost.value) }),
  }
  for (const [index, { value }] of evidence.entries()) shown.push(yield* renderer.text(`evidence/${index}`, value))
  const rest = {
    ...(shown.length === 0 ? {} : { evidence: shown }),
    proposed_action: withheld === undefined ? yield* renderer.json('proposed_action', action) : null,
    ...(reach === undefined ? {} : { reach: yield* renderer.json('reach', reach) }),
  }
  return {
    ...texts,
    ...rest,
    escaped: renderer.escaped,
    ...(renderer.mixed.length === 0 ? {} : { mixed_script: renderer.mixed }),
    ...(withheld === undefined ? {} : { withheld }),
  }
}
