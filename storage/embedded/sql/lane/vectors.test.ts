import t from 'tap'
import { nanosecondValues, textVector, timeVector } from './vectors.ts'

const SEED = Number(process.env.SVC_SEED ?? Math.floor(Math.random() * 2 ** 31))
const FIRST_MS = -9_223_372_036_854
const LAST_MS = 9_223_372_036_854

t.test(`milliseconds are nanoseconds to the last bit (seed ${SEED})`, async (t) => {
  let state = SEED
  const random = (): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0
    return (state >>> 0) / 2 ** 32
  }
  const milliseconds = [FIRST_MS, LAST_MS, 0, -1, 1, 4294, 4295, -4294, -4295, 2 ** 31, 2 ** 32, -(2 ** 32), 1_700_000_000_000]
  for (let i = 0; i < 20_000; i++) milliseconds.push(Math.trunc((random() * 2 - 1) * 10 ** (random() * 12.9)))
  const wanted = milliseconds.map((ms) => BigInt(ms) * 1_000_000n)
  t.same([...nanosecondValues(Float64Array.from(milliseconds))], wanted)
  const positions = Uint32Array.from([3, 0, 12])
  t.same([...(timeVector(positions, (at) => milliseconds[at]).values as BigInt64Array)], [wanted[3], wanted[0], wanted[12]])
})

t.test('texts are numbers in a dictionary where bytes are asked for, and those of no text are missing', async (t) => {
  const texts = ['a', 'b']
  t.same(textVector(Int32Array.of(1, -1, 0), texts, false), { values: ['b', null, 'a'] })
  t.same(textVector(Int32Array.of(1, 0), texts, true), { values: Int32Array.of(1, 0), dictionary: texts })
  const some = textVector(Int32Array.of(1, -1, 0), texts, true)
  t.same(some, { values: Int32Array.of(1, 2 ** 31 - 1, 0), dictionary: texts, validity: Uint8Array.of(1, 0, 1) })
  t.equal(some.dictionary, texts, 'the same array in each chunk')
})

t.test('of a dictionary that is much larger than the answer only what is in the answer is handed on', async (t) => {
  const texts = Array.from({ length: 100 }, (_, i) => `hö_${i}`)
  const { values, bytes, dictionary, validity } = textVector(Int32Array.of(7, -1, 42), texts, true)
  t.equal(dictionary, undefined)
  t.equal(Buffer.from(bytes as Uint8Array).toString(), 'hö_7hö_42')
  t.same([values, validity], [Int32Array.of(0, 5, 5, 11), Uint8Array.of(1, 0, 1)])
})
