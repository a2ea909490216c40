import t from 'tap'
import { grown, line, measures, median, type Window } from './windows.ts'

const QUESTIONS = ['rate']
const ALL = measures({ questions: QUESTIONS, full: 420, memory: 120 })

function window(number: number, changes: Partial<Window> = {}): Window {
  return {
    end: (number + 1) * 60,
    seconds: 60,
    rows: 6_000_000,
    refused: 0,
    answers: new Map([['rate', [900, 1000, 1100]]]),
    failures: [],
    memory: 400 * 2 ** 20,
    disk: 1e9,
    kept: 1e8,
    processor: 90,
    ...changes,
  }
}

t.test('what is flat has not grown, also when it rose before it settled', async (t) => {
  const windows = Array.from({ length: 14 }, (_, i) => window(i, i < 2 ? { memory: 2 ** 20 * (100 + i) } : {}))
  t.same(grown(windows, ALL), { grown: [], unjudged: [] })
})

t.test('what grows is named', async (t) => {
  const memory = Array.from({ length: 14 }, (_, i) => window(i, { memory: (300 + i * 20) * 2 ** 20 }))
  t.match(grown(memory, ALL).grown, [/^memory grows: \d+\.\d, then \d+\.\d MiB$/])
  const latency = Array.from({ length: 14 }, (_, i) => window(i, { answers: new Map([['rate', [1000 + Math.max(0, i - 7) * 400]]]) }))
  t.match(grown(latency, ALL).grown, [/^latency of rate grows/])
  const disk = Array.from({ length: 14 }, (_, i) => window(i, { disk: 1e9 * (1 + i) }))
  t.match(grown(disk, ALL).grown, [/^disk a row grows/])
})

t.test('a lag that grows is named, a second more is not', async (t) => {
  const lags = measures({ questions: [], lags: ['rollups'], full: 420, memory: 120 })
  const rising = (by: number) => Array.from({ length: 14 }, (_, i) => window(i, { answers: new Map([['rollups', [i * by]]]) }))
  t.match(grown(rising(1000), lags).grown, [/^lag of rollups grows: \d+\.\d, then \d+\.\d ms$/])
  t.same(grown(rising(100), lags).grown, [])
})

t.test('a run too short to tell says so', async (t) => {
  t.same(grown([window(0), window(1), window(2)], ALL), { grown: [], unjudged: ['memory', 'disk a row', 'latency of rate'] })
})

t.test('the median, and a line of the table', async (t) => {
  t.equal(median([3, 1, 2]), 2)
  t.equal(median([4, 1, 2, 3]), 2.5)
  t.ok(Number.isNaN(median([])))
  t.match(line(window(0), QUESTIONS), /^ {8}60 {3}100000 {7}0 {2}1\.50 {4}400 {7}954 {2}10\.0 {13}1000\/1100$/)
  t.match(line(window(0, { failures: ['gone'] }), QUESTIONS), / {2}1 failed: gone$/)
  t.match(line(window(0, { answers: new Map([['rate', Array(500_000).fill(7)]]) }), QUESTIONS), / 7\/7$/, 'of as many answers as a fast stream gives')
})
