/**
 * Random records through draft, line and parser, and damaged lines past the chain's check: what is written is what is read, and no change goes
 * unnoticed. node plugins/audit/entry.fuzz.ts [seconds] [seed]
 */
import { deepStrictEqual, ok } from 'node:assert'
import { type Random, seeded } from 'svcdb/lib/random'
import { ChainCheck } from './chain.ts'
import { type DraftInput, draftOf } from './draft.ts'
import { type Entry, encodeEntry, MAX_LINE_BYTES, sealBy, sealedText } from './entry.ts'
import { parseEntry } from './parse.ts'

const FRAGMENTS = [
  '|',
  '=',
  '%7C',
  '%25',
  '%',
  '"',
  '\\',
  '\n',
  '\u0000',
  '\u009b',
  '\u202e',
  'ü',
  '漢',
  '😀',
  '\ud800',
  'a',
  '}',
  '{',
  ',',
  '":"',
  '__proto__',
]
const seal = sealBy(Buffer.from('the key of the fuzzer'))

const below = (random: Random, most: number): number => Math.floor(random() * most)
const text = (random: Random): string =>
  Array.from({ length: below(random, random() < 0.02 ? 3000 : 8) }, () => FRAGMENTS[below(random, FRAGMENTS.length)]).join('')

function recordOf(random: Random): DraftInput {
  const metadata = Object.fromEntries(Array.from({ length: below(random, random() < 0.05 ? 40 : 4) }, () => [text(random), text(random)]))
  const by = random() < 0.5 ? { principal: text(random), address: text(random), requestId: text(random) } : {}
  return { ...by, action: 'admin', resource: text(random), decision: random() < 0.5 ? 'allow' : 'deny', metadata }
}

/** Whether a terminal would do something other than showing it. */
const steers = (line: string): boolean => [...line].some((character) => character < ' ' || (character >= '\u007f' && character <= '\u009f'))

/** Another text; one that says the same in other words, such as `\u0061` for `a`, does not count. */
function corruption(random: Random, line: string): string {
  const at = below(random, line.length)
  const fragment = random() < 0.5 ? FRAGMENTS[below(random, FRAGMENTS.length)] : String.fromCharCode(32 + below(random, 95))
  const kind = below(random, 3)
  if (kind === 0) return line.slice(0, at) + fragment + line.slice(at + 1)
  return kind === 1 ? line.slice(0, at) + line.slice(at + 1 + below(random, 10)) : line.slice(0, at) + fragment + line.slice(at)
}

/** Runs while `goesOn(entries)` holds; returns how many entries were tried. @throws when one is read wrongly, or a change goes unnoticed. */
export function fuzz(seed: number, goesOn: (entries: number) => boolean): number {
  const random = seeded(seed)
  let entries = 0
  for (; goesOn(entries); entries++) {
    const unsealed = { ...draftOf(recordOf(random)), id: BigInt(1 + below(random, 1e9)), timestamp: BigInt(below(random, 1e15)), prevHash: seal('before') }
    const entry: Entry = { ...unsealed, hash: seal(sealedText(unsealed)) }
    const line = encodeEntry(entry)
    ok(Buffer.byteLength(line) <= MAX_LINE_BYTES, `seed ${seed}: a line of ${Buffer.byteLength(line)} bytes`)
    ok(!steers(line.slice(0, -1)), `seed ${seed}: control characters in ${line}`)
    const { sourceIp, requestId, ...rest } = parseEntry(line) as Entry
    const plain = { ...rest, ...(sourceIp === undefined ? {} : { sourceIp }), ...(requestId === undefined ? {} : { requestId }) }
    deepStrictEqual(plain, entry, `seed ${seed}: ${line}`)
    const corrupted = corruption(random, line.trimEnd())
    const found = parseEntry(corrupted)
    if (new ChainCheck(seal, 'anywhere').problem(corrupted) !== undefined || typeof found === 'string') continue
    // JSON may say the same in other words.
    deepStrictEqual(found, parseEntry(line), `seed ${seed}: ${corrupted} goes unnoticed`)
  }
  return entries
}

if (process.argv[1] === import.meta.filename) {
  const seed = Number(process.argv[3] ?? Date.now() % 1e9)
  const until = Date.now() + Number(process.argv[2] ?? 10) * 1000
  console.log(`seed ${seed}: ${fuzz(seed, () => Date.now() < until)} entries, no change unnoticed`)
}
