/** Requests that lie in the memory of the thread that decompresses are read in runs, and mean what they mean elsewhere. */
import { webAssembly } from 'svcdb/lib/web-assembly'
import t from 'tap'
import { SampleWriter } from './sample-writer.ts'
import { decoding } from './testing-decoding.ts'
import { type WireSeries, writeRequest } from './testing-wire.ts'

const PAGES = 2
const START_MS = 1_700_000_000_000
const shared = new webAssembly!.Memory({ initial: PAGES, maximum: PAGES, shared: true })
const memory = { memory: shared, maxPages: PAGES }

/** The message in the shared memory, at an odd address. */
function placed(message: Uint8Array): Uint8Array {
  const place = new Uint8Array(shared.buffer, 1001, message.length)
  place.set(message)
  return place
}

const one = (name: string, value: string, ms = START_MS, number = 1.5): WireSeries => ({
  labels: [
    ['__name__', 'up'],
    [name, value],
  ],
  samples: [{ ms, value: number }],
})

/** How many series `body` has read in runs. */
function readInRuns(body: () => void): number {
  const { finite } = SampleWriter.prototype
  let count = 0
  SampleWriter.prototype.finite = function (...args) {
    count++
    finite.apply(this, args)
  }
  try {
    body()
  } finally {
    SampleWriter.prototype.finite = finite
  }
  return count
}

t.test('labels of every length are recognised in a run, but for the shortest', async (t) => {
  for (let length = 1; length <= 300; length++) {
    const d = decoding({ memory })
    const list = ['a', 'b', 'c'].map((end) => one('instance', 'v'.repeat(length - 1) + end))
    d.message(1, placed(writeRequest(list)))
    const again = writeRequest(list.map(({ labels }, i) => ({ labels, samples: [{ ms: START_MS + i, value: i }] })))
    const count = readInRuns(() => d.message(1, placed(again)))
    // The first series follows none, and the shortest labels of all have 31 bytes.
    if (count !== (length === 1 ? 0 : 2)) t.fail(`${count} series of 3 are read in a run, whose values have ${length} bytes`)
    t.strictSame(
      d.points().map(([, , time, value]) => [time, value]),
      [0, 1, 2].map((i) => [BigInt(START_MS + i) * 1_000_000n, i]),
    )
  }
})

t.test('a request with any byte changed means the same in a run and elsewhere', async (t) => {
  const list = Array.from({ length: 4 }, (_, i) => one('instance', `${'v'.repeat(20 + i * 40)}${i}`))
  const first = writeRequest(list)
  const then = writeRequest(list.map(({ labels }, i) => ({ labels, samples: [{ ms: START_MS + 1000 * i, value: 0.1 + i }] })))
  const read = (d: ReturnType<typeof decoding>, message: Uint8Array): unknown => {
    try {
      const outcome = d.message(1, message)
      return { outcome, points: d.points(), bits: d.bits() }
    } catch (error) {
      return (error as Error).message
    }
  }
  let inRuns = 0
  let compared = 0
  for (let at = 0; at < then.length; at++) {
    for (const change of [1, 2, 0x10, 0x40, 0x80, 0x81, 0xff]) {
      const changed = Buffer.from(then)
      changed[at] ^= change
      const [runs, plain] = [decoding({ memory }), decoding()]
      runs.message(1, placed(first))
      plain.message(1, first)
      let found: unknown
      inRuns += readInRuns(() => {
        found = read(runs, placed(changed))
      })
      const expected = read(plain, changed)
      if (JSON.stringify(found, texts) !== JSON.stringify(expected, texts)) t.fail(`byte ${at} changed by ${change}`)
      compared++
    }
  }
  t.equal(compared, then.length * 7)
  t.ok(inRuns > compared, `${inRuns} series in runs`)
})

t.test('series that come in another order, or none as expected, are read all the same', async (t) => {
  const d = decoding({ memory })
  const list = Array.from({ length: 500 }, (_, i) => one('instance', `node-${i}-of-many-more`, START_MS, i))
  d.message(1, placed(writeRequest(list)))
  const twice = readInRuns(() => d.message(1, placed(writeRequest(list))))
  t.equal(twice, 499, 'all but the first')
  for (const order of [list.toReversed(), list.filter((_, i) => i % 2 === 0), [...list.slice(250), ...list.slice(0, 250)]]) {
    t.equal(d.message(1, placed(writeRequest(order))).floatRows, order.length)
    t.strictSame(
      d.points().map(([, , , value]) => value),
      order.map(({ samples }) => samples?.[0].value),
    )
  }
  t.equal(
    readInRuns(() => d.message(1, writeRequest(list))),
    0,
    'in no other memory',
  )
})

t.test('the length of a series is read to its end', async (t) => {
  const d = decoding({ memory })
  const list = [one('instance', 'before it there is another'), one('instance', 'v'.repeat(16_400))]
  const message = writeRequest(list)
  d.message(1, placed(message))
  const at = message.lastIndexOf(Buffer.from('__name__')) - 8
  t.strictSame([message[at], message[at + 1] >>> 7, message[at + 2] >>> 7, message[at + 3]], [0x0a, 1, 1, 1], 'three bytes')
  // What follows looks as if it began after two.
  const cut = Buffer.concat([message.subarray(0, at + 3), message.subarray(at + 4)])
  t.throws(() => d.message(1, placed(cut)), { code: 'BAD_REQUEST' })
})

t.test('keys that no longer fit are read as new ones', async (t) => {
  const d = decoding({ memory, maxCacheBytes: 4096 })
  const list = Array.from({ length: 200 }, (_, i) => one('instance', `node-${i}-of-many-more`, START_MS, i))
  for (let round = 0; round < 3; round++) {
    t.equal(d.message(1, placed(writeRequest(list))).floatRows, 200)
    t.strictSame(
      d.points().map(([, , , value]) => value),
      list.map((_, i) => i),
    )
  }
})

function texts(_: string, value: unknown): unknown {
  return typeof value === 'bigint' ? `${value}n` : value
}
