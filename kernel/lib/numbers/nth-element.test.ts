/** The value of each place, and orders that take long to other ways of choosing what values are divided around. */
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { nthElement } from './index.ts'

const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)

t.test('a value has the place that it has among the sorted ones', (t) => {
  const random = seeded(seed)
  const below = (most: number): number => Math.floor(random() * most)
  for (let round = 0; round < 2000; round++) {
    const distinct = [2, 10, 1e9][below(3)]
    const values = Float64Array.from({ length: 1 + below(60) }, () => (random() < 0.05 ? Number.POSITIVE_INFINITY : below(distinct) - distinct / 2))
    const from = below(values.length)
    const to = from + below(values.length - from)
    const place = from + below(to - from + 1)
    const wanted = values.slice(from, to + 1).sort()
    const [before, behind] = [values.slice(0, from), values.slice(to + 1)]
    nthElement(values, from, to, place)
    const right =
      values[place] === wanted[place - from] &&
      values.subarray(from, place).every((value) => value <= values[place]) &&
      values.subarray(place, to + 1).every((value) => value >= values[place])
    if (!right) return void t.fail(`SVC_SEED=${seed}, round ${round}`)
    t.same([...values.subarray(0, from), ...values.subarray(to + 1)], [...before, ...behind])
  }
  t.end()
})

/** An order in which medians of the first, the middle and the last value divide off a few values each time (McIlroy, A Killer Adversary for Quicksort, 1999). */
function killer(length: number): Float64Array {
  const open = length
  const values = new Float64Array(length).fill(open)
  const places = Array.from(values.keys())
  let [next, candidate] = [0, 0]
  const less = (a: number, b: number): boolean => {
    if (values[a] === open && values[b] === open) values[a === candidate ? a : b] = next++
    if (values[a] === open) candidate = a
    else if (values[b] === open) candidate = b
    return a !== b && values[a] < values[b]
  }
  const middleOf = (a: number, b: number, c: number): number => (less(a, b) ? (less(b, c) ? b : less(a, c) ? c : a) : less(a, c) ? a : less(b, c) ? c : b)
  const wanted = length >> 1
  for (let low = 0, high = length - 1; low < high; ) {
    const pivot = middleOf(places[low], places[(low + high) >>> 1], places[high])
    let [i, j] = [low, high]
    while (i <= j) {
      while (less(places[i], pivot)) i++
      while (less(pivot, places[j])) j--
      if (i > j) break
      ;[places[i], places[j]] = [places[j], places[i]]
      i++
      j--
    }
    if (wanted <= j) high = j
    else if (wanted >= i) low = i
    else break
  }
  return values.map((value) => (value === open ? next++ : value))
}

t.test('an order that was made to take long does not', (t) => {
  const order = killer(20_000)
  const used = process.threadCpuUsage()
  for (let round = 0; round < 40; round++) nthElement(order.slice(), 0, order.length - 1, order.length >> 1)
  // With such medians each round takes 75 million steps.
  t.ok(process.threadCpuUsage(used).user < 2_500_000)
  for (const other of [Float64Array.from(order.keys()), new Float64Array(order.length)]) nthElement(other, 0, other.length - 1, other.length >> 1)
  t.ok(process.threadCpuUsage(used).user < 3_000_000)
  t.end()
})
