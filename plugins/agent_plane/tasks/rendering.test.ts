import { OWN, ownProse, type Task } from 'svcdb/agents'
import { atOnce } from 'svcdb/lib/event-loop'
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { rendered as rendering, visible } from './rendering.ts'
import { newTask } from './request.ts'
import { mixedWords, systemsOf } from './scripts.ts'

const wordsOf = (text: string) => atOnce(mixedWords(text))
const rendered = (...given: Parameters<typeof rendering>) => atOnce(rendering(...given))

const LAST = 0x10ffff
/** Of what each category is, apart from what the renderer asks. */
const UNSEEN = [/\p{Cc}/u, /\p{Cf}/u, /\p{Cs}/u, /\p{Co}/u, /\p{Cn}/u, /\p{Zs}/u, /\p{Zl}/u, /\p{Zp}/u, /\p{DI}/u, /\p{Bidi_C}/u]
const SEEN = new Set([0x20, 0x0a, 0x09])
const BLANK = new Set([0x2800, 0x13441, 0x13442, 0x16fe4, 0x1d159])
/** The way back; what is no code point stands for itself. */
const unescaped = (text: string): string =>
  text.replace(/\\u\{([0-9A-F]+)\}/g, (shown, digits: string) => {
    const code = Number.parseInt(digits, 16)
    return code <= LAST ? String.fromCodePoint(code) : shown
  })

t.test('every code point that cannot be seen, or that changes the direction, is written out, and no other', async (t) => {
  const wrong: string[] = []
  let written = 0
  for (let code = 0; code <= LAST; code++) {
    const character = String.fromCodePoint(code)
    const hidden = BLANK.has(code) || (!SEEN.has(code) && UNSEEN.some((category) => category.test(character)))
    const expected = hidden ? `\\u{${code.toString(16).toUpperCase()}}` : character
    if (visible(character) !== expected) wrong.push(code.toString(16))
    if (hidden) written++
  }
  t.same(wrong, [])
  t.ok(written > 100_000, `${written}`)
  t.equal(visible('pay \u202eeve\u202c'), 'pay \\u{202E}eve\\u{202C}')
  t.equal(visible('\ud800'), '\\u{D800}')
})

t.test('what is shown stands for one text only', async (t) => {
  const seed = Number(process.env.SVC_SEED ?? 3)
  t.comment(`SVC_SEED=${seed}`)
  const random = seeded(seed)
  const parts = ['\\', 'u{', '202E', '5C', '}', '\u202e', 'a', '\\u{202E}', '\\u{5C}', '\\\\']
  const wrong: string[] = []
  for (let i = 0; i < 20_000; i++) {
    const text = Array.from({ length: 1 + Math.floor(random() * 6) }, () =>
      random() < 0.8 ? parts[Math.floor(random() * parts.length)] : String.fromCodePoint(Math.floor(random() * LAST)),
    ).join('')
    if (unescaped(visible(text)) !== text) wrong.push(text)
  }
  t.same(wrong, [])
  t.equal(visible('a\\b'), 'a\\b')
})

t.test('every letter has a script, and a word of several is found', async (t) => {
  const without: string[] = []
  for (let code = 0x80; code <= LAST; code += 1) {
    const character = String.fromCodePoint(code)
    if (!/\p{L}/u.test(character) || /[\p{sc=Zyyy}\p{sc=Zinh}]/u.test(character)) continue
    // Of the large scripts a sample.
    if (/[\p{sc=Hani}\p{sc=Hang}\p{sc=Tang}\p{sc=Egyp}\p{sc=Xsux}]/u.test(character) && code % 97 !== 0) continue
    if (systemsOf(character).length === 0) without.push(code.toString(16))
  }
  t.same(without, [])
  t.same(wordsOf('p\u0430y to \u0430pple and p\u0430y'), [
    { word: 'p\u0430y', scripts: ['Cyrillic', 'Latin'] },
    { word: '\u0430pple', scripts: ['Cyrillic', 'Latin'] },
  ])
  t.match(wordsOf('p\u200b\u0430y'), [{ scripts: ['Cyrillic', 'Latin'] }], 'what is invisible does not part a word')
  for (const text of ['naïve café', 'Привет мир', '東京タワーへ', '한국漢字', 'e\u0301', 'µs 5½', 'Ελλάδα', 'שלום', 'नमस्ते', 'ASCII_only x1'])
    t.same(wordsOf(text), [], text)
  t.match(wordsOf('Κa'), [{ scripts: ['Greek', 'Latin'] }])
})

t.test('all texts of a task are shown so, the names and values of its action too', async (t) => {
  const request = {
    kind: 'k',
    summary: 'Pay \u202e100',
    proposed_action: { to: { 'n\u0430me': ['Eve\u200b', 7, null] } },
    cost: { value: '1\u00a0€', label: { ...OWN, trust: 'untrusted' as const } },
    evidence: [ownProse('plain'), '\u0430b'],
    reach: { agent: 'x\u2066' },
  }
  const task: Task = newTask({ run: 'run', effect: 'e', request, requesters: [], label: OWN, now: 0 })
  t.same(rendered(task, undefined), {
    summary: 'Pay \\u{202E}100',
    cost: '1\\u{A0}€',
    evidence: ['plain', '\u0430b'],
    proposed_action: { to: { 'n\u0430me': ['Eve\\u{200B}', 7, null] } },
    reach: { agent: 'x\\u{2066}' },
    escaped: true,
    mixed_script: [
      { at: 'evidence/1', word: '\u0430b', scripts: ['Cyrillic', 'Latin'] },
      { at: 'proposed_action/to/n\u0430me', word: 'n\u0430me', scripts: ['Cyrillic', 'Latin'] },
    ],
  })
  t.match(rendered(task, 'erased'), { proposed_action: null, withheld: 'erased' })
  t.match(rendered({ ...task, justification: { summary: ownProse('x'), proposed_action: {}, evidence: [] } }, undefined), {
    escaped: false,
    mixed_script: undefined,
    evidence: undefined,
  })
})
