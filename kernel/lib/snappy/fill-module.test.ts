import { compressSync } from 'snappy'
import t from 'tap'
import { seeded } from '../random/index.ts'
import { webAssembly } from '../web-assembly/index.ts'
import { checkedLength, fill, SLACK } from './fill.ts'
import { type FillIn, fillIn, WRITE_SLACK } from './fill-module.ts'

const PAGE = 65536
const OUTPUT = 4 * PAGE
const PAGES = 8
const seed = Math.floor(Math.random() * 2 ** 31)

const memory = new webAssembly!.Memory({ initial: PAGES, maximum: PAGES, shared: true })
const bytes = new Uint8Array(memory.buffer)
const decode = fillIn(memory, PAGES) as FillIn

/** What `fill` makes of a block; undefined when it is none. */
function expected(block: Uint8Array): Buffer | undefined {
  try {
    const length = checkedLength(block)
    const out = new Uint8Array(length + SLACK)
    fill(block, out, new DataView(out.buffer), length)
    return Buffer.from(out.subarray(0, length))
  } catch {
    return undefined
  }
}

/** The same by the module, with whatever lay in memory before; also undefined when the length is not for it to judge. */
function actual(block: Uint8Array): Buffer | undefined {
  let length: number
  try {
    length = checkedLength(block)
  } catch {
    return undefined
  }
  bytes.set(block, 0)
  const before = bytes[OUTPUT - 1]
  const behind = Buffer.from(bytes.slice(OUTPUT + length + WRITE_SLACK, OUTPUT + length + WRITE_SLACK + 256))
  const good = decode(0, block.length, OUTPUT, length)
  const kept = bytes[OUTPUT - 1] === before && behind.equals(bytes.slice(OUTPUT + length + WRITE_SLACK, OUTPUT + length + WRITE_SLACK + 256))
  if (!kept) throw new Error('it has written where nothing of it belongs')
  return good ? Buffer.from(bytes.slice(OUTPUT, OUTPUT + length)) : undefined
}

/** Blocks that were well formed, and those that were not. */
const seen = { good: 0, bad: 0 }

function same(t: { fail(text: string): unknown }, block: Uint8Array, what: string): void {
  const wanted = expected(block)
  const got = actual(block)
  seen[wanted === undefined ? 'bad' : 'good']++
  if (wanted === undefined ? got !== undefined : got === undefined || !wanted.equals(got))
    t.fail(`seed ${seed}, ${what}: ${Buffer.from(block).toString('hex')}`)
}

t.test('elements of every kind, well formed and not, decode as in JavaScript', async (t) => {
  const random = seeded(seed)
  const below = (n: number): number => Math.floor(random() * n)
  for (let round = 0; round < 4000; round++) {
    const elements: number[] = []
    let length = 0
    for (let i = below(30); i >= 0; i--) {
      const kind = length === 0 ? 0 : below(4)
      const back = below(8) === 0 ? below(length * 2) : 1 + below(Math.min(length, below(2) === 0 ? 20 : 2000))
      if (kind === 0) {
        const size = 1 + below(below(4) === 0 ? 300 : 40)
        const wide = size > 60 || below(5) === 0 ? 1 + below(4) : 0
        if (size > 256 && wide === 1) continue
        elements.push(wide === 0 ? (size - 1) << 2 : (59 + wide) << 2)
        for (let byte = 0; byte < wide; byte++) elements.push(((size - 1) >>> (8 * byte)) & 0xff)
        for (let byte = 0; byte < size; byte++) elements.push(below(256))
        length += size
      } else if (kind === 1) {
        const size = 4 + below(8)
        elements.push(((back & 0x700) >> 3) | ((size - 4) << 2) | 1, back & 0xff)
        length += size
      } else {
        const size = 1 + below(64)
        elements.push(((size - 1) << 2) | kind, back & 0xff, (back >> 8) & 0xff, ...(kind === 3 ? [0, below(50) === 0 ? 0x80 : 0] : []))
        length += size
      }
    }
    const named = below(10) === 0 ? below(length * 2) : length
    const block = [...(named < 128 ? [named] : [(named & 0x7f) | 0x80, named >> 7]), ...elements]
    same(t, Uint8Array.from(below(10) === 0 ? block.slice(0, below(block.length)) : block), `round ${round}`)
  }
})

t.test('what the library encodes, whole and damaged, decodes as in JavaScript', async (t) => {
  const random = seeded(seed + 1)
  for (let round = 0; round < 400; round++) {
    const words = Array.from({ length: 1 + Math.floor(random() * 20) }, () => Buffer.from(Array.from({ length: 1 + random() * 90 }, () => random() * 256)))
    const block = compressSync(Buffer.concat(Array.from({ length: Math.floor(random() * 300) }, () => words[Math.floor(random() * words.length)])))
    same(t, block, `round ${round}`)
    for (let i = Math.floor(random() * 4); i >= 0; i--) block[Math.floor(random() * block.length)] = Math.floor(random() * 256)
    same(t, block, `round ${round}, damaged`)
  }
})

t.test('both kinds were among them', async (t) => {
  t.ok(seen.good > 1000, `${seen.good} good`)
  t.ok(seen.bad > 200, `${seen.bad} bad`)
})

t.test('a literal that claims the largest length there is', async (t) => {
  same(t, Uint8Array.from([5, 63 << 2, 0xff, 0xff, 0xff, 0xff, 104]), 'all ones')
  t.equal(actual(Uint8Array.from([5, 63 << 2, 0xff, 0xff, 0xff, 0xff, 104])), undefined)
})
