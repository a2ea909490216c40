/** Expressions that grow: reading one, and matching a text with it, takes time and memory in proportion, or is refused. */
import t from 'tap'
import { type Family, filled, grows, processorMsOf } from '../../../test/support/growth.ts'
import { SvcError } from '../errors/index.ts'
import { compileRegex } from './regex.ts'
import { TextPattern } from './text-pattern.ts'

const MIB = 1 << 20
/** An expression may have 16,384 characters. */
const BYTES = 16_000
const MEMORY = 512 * MIB
const nested = (open: string, within: string, close: string): Family<string> => {
  return (bytes) => {
    const levels = Math.floor(bytes / (open.length + close.length))
    return open.repeat(levels) + within + close.repeat(levels)
  }
}
const behind = (before: string, item: string): Family<string> => {
  return (bytes) => before + filled(bytes - before.length, item)
}
const many = (item: string): Family<string> => behind('', item)
/** Of 16,384 texts. */
const PRODUCT = '(a|b)'.repeat(14)

const FAMILIES: Record<string, Family<string>> = {
  'flags and alternatives': (bytes) => filled(bytes / 2, '(?i)') + filled(bytes / 2, '|'),
  'flags on and off': (bytes) => filled(bytes / 2, '(?i)(?-i)') + filled(bytes / 2, '|'),
  'flags of groups': nested('(?i:', 'a', ')'),
  'a product, then texts': behind(PRODUCT, 'c'),
  'a product, then groups': behind(PRODUCT, '(c)'),
  'a product, then gaps': behind(PRODUCT, 'c.*'),
  'products of products': many('(a|b|c)'),
  'products that are nested': nested('(a|', 'b', '(c|d))'),
  'empty products': many('(|)'),
  'long products': (bytes) => many(`(${'x'.repeat(bytes / 16)}|b)`)(bytes),
  groups: nested('(', 'a', ')'),
  'groups of lists': nested('(a|', 'b', ')'),
  gaps: many('a.*'),
  'gaps or gaps': many('a.*|'),
  'gaps that repeat': many('(a.*)+'),
  texts: many('ab|'),
  optionals: many('a?'),
  'optional groups': many('(a|b)?'),
  repetitions: many('a{1000}'),
  'repetitions of groups': many('(a{30}){30}'),
  'unicode classes': many('\\pL'),
  'unicode classes that are counted': many('\\pL{9}'),
  'unicode classes of several': many('[\\pL\\pN]'),
  'any character, counted': many('.{9}'),
  'any but one, counted': many('[^a]{9}'),
  'counts of counts': many('((.{2}){2}){2}'),
  'counts of many counts': many('((.{2}){2}|.{3}){2}'),
  'optional complements': many('\\W?'),
  'complements, whatever the case': behind('(?i)', '\\W'),
  'unicode classes, whatever the case': behind('(?i)', '\\pL'),
  'classes of classes': many('[\\pL\\d]'),
  'names in brackets': behind('[', '[:'),
  'names in brackets, closed': (bytes) => `${filled(bytes, '[[:digit:]')}]`,
  brackets: many('['),
  braces: many('{'),
  'braces and digits': many('{1'),
  quoted: many('\\Q'),
  'quoted, closed': many('\\Q.\\E'),
  escapes: many('\\.'),
  'named groups': (bytes) => filled(bytes, (i) => `(?P<a${i}>b)`),
  anchors: many('^'),
  'anchors that repeat': many('^*'),
}

for (const [name, family] of Object.entries(FAMILIES)) {
  t.test(name, async (t) => {
    const before = process.memoryUsage.rss()
    await grows(t, name, { bytes: BYTES }, (bytes) => processorMsOf(() => read(family(bytes))))
    const taken = process.memoryUsage.rss() - before
    t.ok(taken < MEMORY, `${Math.round(taken / MIB)} MiB`)
  })
}

t.test('what takes long to compile says so', async (t) => {
  for (const pattern of [many('\\pL')(400), many('(\\d{3}-)')(8000), many('a?b')(4000), `(${'('.repeat(20)}a${'{2})'.repeat(20)})`]) {
    t.throws(() => compileRegex(pattern), { code: 'BAD_REQUEST', message: /it would take too long to compile; use fewer classes/ }, pattern.slice(0, 40))
  }
  // Lists as people and their tools write them.
  for (const pattern of [
    '\\p{L}[\\p{L}\\p{N}_-]{0,62}',
    many('10\\.0\\.\\d{1,3}\\.\\d{1,3}|')(5000),
    many('node-\\d+\\.eu-(west|east)-[12].*?|')(16_000),
    many('web-1?\\d|')(8000),
  ]) {
    t.equal(new TextPattern(pattern).test('!'), false, pattern.slice(0, 40))
  }
})

function read(pattern: string): void {
  // V8 compiles anew for texts with characters beyond Latin-1.
  for (const text of ['', 'a'.repeat(100), '\u65e5\u672c']) {
    refusable(() => new TextPattern(pattern).test(text))
    refusable(() => compileRegex(pattern, true))
  }
}

function refusable(act: () => unknown): void {
  try {
    act()
  } catch (error) {
    if (!(error instanceof SvcError) || error.code !== 'BAD_REQUEST') throw error
  }
}
