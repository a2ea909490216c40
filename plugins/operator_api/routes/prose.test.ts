/** Prose that nobody can be sure of, out of all of Unicode, by HTTP: what is shown has nothing in it that cannot be seen, and stands for what was written. */
import { defineSkill, type Json } from 'svcdb/agents'
import { seeded } from 'svcdb/lib/random'
import { Type } from 'svcdb/lib/schema'
import t from 'tap'
import { startApi } from '../testing.ts'

const TASKS = 60
const LAST = 0x10ffff
/** As whoever reads it would find them: not as the renderer does. */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zs}\p{Zl}\p{Zp}\p{DI}\p{Bidi_C}\u2800]/gu
const SEEN = new Set([' ', '\t', '\n'])
/** Letters that look alike in several scripts, and what joins, hides and turns. */
const TRICKS = ['раypal', 'аррӏе', 'Ηello', 'gοοgle', '\u202e', '\u2066', '\u200d', '\ufe0f', '\u{e0041}', '\u00ad', '\\u{202E}', '\\', 'u{41}', 'e\u0301', ' ']
const LETTERS = ['Latin', 'Cyrillic', 'Greek', 'Hebrew', 'Arabic', 'Han', 'Hiragana', 'Hangul', 'Devanagari'].map((script) => {
  const is = new RegExp(`(?=\\p{L})\\p{sc=${script}}`, 'u')
  return Array.from({ length: 0xd7ff }, (_, code) => String.fromCodePoint(code)).filter((one) => is.test(one))
})

const unescaped = (text: string): string => text.replace(/\\u\{([0-9A-F]+)\}/g, (_, digits: string) => String.fromCodePoint(Number.parseInt(digits, 16)))
const hiddenIn = (text: string): string[] => (text.match(HIDDEN) ?? []).filter((one) => !SEEN.has(one))
/** Those of a word that are one's own; what all scripts have says nothing. */
const scriptsOf = (word: string): Set<number> =>
  new Set([...word].flatMap((one) => LETTERS.flatMap((letters, script) => (letters.includes(one) ? [script] : []))))

interface Shown {
  id: string
  rendering: {
    summary: string
    cost?: string
    evidence?: string[]
    proposed_action: { [name: string]: Json }
    escaped: boolean
    mixed_script?: { at: string; word: string; scripts: string[] }[]
  }
  justification: { summary: { value: string }; cost?: { value: string }; evidence: { value: string }[]; proposed_action: { [name: string]: Json } }
  has_untrusted_prose: boolean
}

t.test('whatever is written, what is shown can be seen, and stands for it', async (t) => {
  const seed = Number(process.env.SVC_SEED ?? 11)
  t.comment(`SVC_SEED=${seed}`)
  const random = seeded(seed)
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)]
  const point = (): string => {
    const code = Math.floor(random() * LAST)
    return code >= 0xd800 && code <= 0xdfff ? 'x' : String.fromCodePoint(code)
  }
  const word = (): string => Array.from({ length: 1 + Math.floor(random() * 6) }, () => pick(pick(LETTERS))).join('')
  const text = (): string =>
    Array.from({ length: 1 + Math.floor(random() * 8) }, () => (random() < 0.4 ? pick(TRICKS) : random() < 0.5 ? point() : word())).join(
      random() < 0.5 ? '' : ' ',
    )
  const requests = Array.from({ length: TASKS }, () => ({
    kind: 'ask',
    summary: text(),
    proposed_action: { [`m${text()}`]: [text(), { inner: text() }], plain: 'same' },
    ...(random() < 0.5 ? { cost: text() } : {}),
    ...(random() < 0.5 ? { evidence: [text(), text()] } : {}),
  }))
  const asks = defineSkill({
    capability: 'asks',
    summary: 'Of a test',
    input: Type.Any(),
    output: Type.Any(),
    async invoke(context) {
      for (const request of requests) await context.openTask(request)
      await context.sleep(1e9)
      return null
    },
  })
  const { as, run } = await startApi(t, [asks])
  await run('asks', null)
  const { tasks, truncated } = (await as('ann').get('/tasks')).body as { tasks: Shown[]; truncated: boolean }
  t.same([tasks.length, truncated], [TASKS, false])
  let [escapes, mixes] = [0, 0]
  for (const [index, { rendering, justification, has_untrusted_prose: untrusted }] of tasks.entries()) {
    const note = `task ${index}: ${JSON.stringify(justification)}`
    const [written, shown] = [leaves(justificationOf(justification)), leaves(renderingOf(rendering))]
    t.same(shown.flatMap(hiddenIn), [], note)
    t.same(shown.map(unescaped), written, note)
    t.equal(
      rendering.escaped,
      shown.some((one, i) => one !== written[i]),
      note,
    )
    t.equal(untrusted, true, 'what a step writes that has read its input is not to be trusted')
    if (rendering.escaped) escapes++
    for (const { at, word: mixed, scripts } of rendering.mixed_script ?? []) {
      mixes++
      t.match(at, /^(summary|cost|evidence\/\d+|proposed_action\/.+)$/, note)
      t.ok(scripts.length > 1, note)
      t.same([...hiddenIn(mixed), ...hiddenIn(at)], [], note)
    }
    // Words of Latin and Cyrillic, or Latin and Greek, are always found.
    const found = new Set((rendering.mixed_script ?? []).map((one) => unescaped(one.word)))
    for (const one of written.flatMap((all) => all.match(/[\p{L}]+/gu) ?? [])) {
      const scripts = scriptsOf(one)
      if (scripts.has(0) && (scripts.has(1) || scripts.has(2)))
        t.ok(
          [...found].some((each) => each.includes(one)),
          `${note}: ${one}`,
        )
    }
  }
  t.ok(escapes > TASKS / 3 && mixes > TASKS / 3, `${escapes} were escaped, ${mixes} words mix scripts`)
})

function justificationOf({ summary, cost, evidence, proposed_action: action }: Shown['justification']): Json {
  return [summary.value, ...(cost === undefined ? [] : [cost.value]), ...evidence.map(({ value }) => value), action]
}

function renderingOf({ summary, cost, evidence = [], proposed_action: action }: Shown['rendering']): Json {
  return [summary, ...(cost === undefined ? [] : [cost]), ...evidence, action]
}

/** All texts, names of members among them. */
function leaves(value: Json): string[] {
  if (typeof value === 'string') return [value]
  if (Array.isArray(value)) return value.flatMap(leaves)
  return typeof value === 'object' && value !== null ? Object.entries(value).flatMap(([name, one]) => [name, ...leaves(one)]) : []
}
