import t from 'tap'
import { apply, buckets, lines, vector } from '../testing/calls.ts'

t.test('times of the steps and of the query', async (t) => {
  const options = { start: 100, steps: 2, query: { start: 50_000, end: 350_000, step: 15_000 } }
  t.same(lines(await apply('time', [], options)), ['100 160'])
  t.same(lines(await apply('start', [], options)), ['50 50'])
  t.same(lines(await apply('end', [], options)), ['350 350'])
  t.same(lines(await apply('range', [], options)), ['300 300'])
  t.same(lines(await apply('step', [], options)), ['15 15'])
  t.same(lines(await apply('step', [], { start: 100 })), ['0'])
  t.same(lines(await apply('pi', [])), [String(Math.PI)])
})

t.test('timestamps are those of the samples, or of the step', async (t) => {
  const values = vector([{ __name__: 'm' }, 5, undefined, buckets([1])])
  t.same(lines(await apply('timestamp', [values], { sampleTimes: [1500, NaN, 2500] })), ['-{__name__=m} 1.5 _ 2.5'])
  t.same(lines(await apply('timestamp', [values], { start: 10 })), ['-{__name__=m} 10 _ 130'])
  t.same(lines(await apply('start_timestamp', [values])), [])
})

t.test('the calendar agrees with Date', async (t) => {
  const seconds: number[] = []
  for (let day = -800_000; day < 900_000; day += 397) seconds.push(day * 86_400 + ((day % 1440) + 1440) * 60 - 60)
  const all = vector([{}, ...seconds])
  const read = async (fn: string): Promise<number[]> => {
    const value = await apply(fn, [all])
    return value.type === 'vector' ? [...value.values] : []
  }
  const dates = seconds.map((second) => new Date(second * 1000))
  t.same(
    await read('year'),
    dates.map((d) => d.getUTCFullYear()),
  )
  t.same(
    await read('month'),
    dates.map((d) => d.getUTCMonth() + 1),
  )
  t.same(
    await read('day_of_month'),
    dates.map((d) => d.getUTCDate()),
  )
  t.same(
    await read('day_of_week'),
    dates.map((d) => d.getUTCDay()),
  )
  t.same(
    await read('hour'),
    dates.map((d) => d.getUTCHours()),
  )
  t.same(
    await read('minute'),
    dates.map((d) => d.getUTCMinutes()),
  )
  t.same(
    await read('day_of_year'),
    dates.map((d) => (Date.UTC(2000, d.getUTCMonth(), d.getUTCDate()) - Date.UTC(2000, 0, 1)) / 86_400_000 + 1 - (d.getUTCMonth() > 1 && !leap(d) ? 1 : 0)),
  )
  t.same(
    await read('days_in_month'),
    dates.map((d) => [31, leap(d) ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][d.getUTCMonth()]),
  )
})

function leap(date: Date): boolean {
  const year = date.getUTCFullYear()
  return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)
}

t.test('without an argument the calendar reads the steps', async (t) => {
  t.same(lines(await apply('minute', [], { start: 3600 * 5 + 59 * 60, steps: 2 })), ['{} 59 0'])
})

t.test('the calendar goes to the ends of 64 bits', async (t) => {
  const far = vector([{}, NaN, -1e300, 9.2e18, -9.2e18, 1e17])
  const of = async (fn: string): Promise<string> => lines(await apply(fn, [far]))[0]
  t.equal(await of('year'), '-{} 292277026596 292277026596 291536396232 -291536392293 3168875820')
  t.equal(await of('day_of_month'), '-{} 4 4 31 3 6')
  t.equal(await of('day_of_year'), '-{} 339 339 244 123 250')
  t.equal(await of('hour'), '-{} 15 15 11 12 9')
  t.equal(await of('minute'), '-{} 30 30 33 26 46')
  t.equal(await of('day_of_week'), '-{} 0 0 5 2 3')
})
