/** Times at which points are sent: windows over midnight, days, zones, and days of 23 and 25 hours. */

import { definePlugin } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { eventually } from '../../test/support/until.ts'
import { f64, NOW, write } from '../conformance/points.ts'
import { realEnvironment } from './engine.ts'
import { SendTimes } from './send-times.ts'
import { edgeOf, upstream } from './testing.ts'

const MINUTE = 60_000
const at = (text: string): number => Date.parse(text)

/** Minutes of a span of time at which it is open, as "from to" in UTC. */
function openings(times: SendTimes, from: string, to: string): string[] {
  const text = (ms: number) => new Date(ms).toISOString().slice(0, 16)
  const found: string[] = []
  let began: number | undefined
  for (let ms = at(from); ms <= at(to); ms += MINUTE) {
    const open = ms < at(to) && times.isOpen(ms)
    if (open && began === undefined) began = ms
    if (!open && began !== undefined) {
      found.push(`${text(began)} ${text(ms)}`)
      began = undefined
    }
  }
  return found
}

t.test('without times it is always open', async (t) => {
  t.same(openings(new SendTimes([], 'UTC'), '2026-03-01T00:00Z', '2026-03-02T00:00Z'), ['2026-03-01T00:00 2026-03-02T00:00'])
})

t.test('a window begins with its first minute and ends before its last', async (t) => {
  const times = new SendTimes(['12:30-14:00'], 'UTC')
  t.same(openings(times, '2026-03-02T00:00Z', '2026-03-04T00:00Z'), ['2026-03-02T12:30 2026-03-02T14:00', '2026-03-03T12:30 2026-03-03T14:00'])
  t.same(
    [times.isOpen(at('2026-03-02T12:29:59.999Z')), times.isOpen(at('2026-03-02T12:30:00Z')), times.isOpen(at('2026-03-02T13:59:59.999Z'))],
    [false, true, true],
  )
})

t.test('a window over midnight belongs to the day on which it begins', async (t) => {
  t.same(openings(new SendTimes(['22:00-06:00'], 'UTC'), '2026-03-02T12:00Z', '2026-03-04T12:00Z'), [
    '2026-03-02T22:00 2026-03-03T06:00',
    '2026-03-03T22:00 2026-03-04T06:00',
  ])
  // 2026-03-02 is a Monday.
  t.same(openings(new SendTimes(['Fri 22:00-06:00'], 'UTC'), '2026-03-02T00:00Z', '2026-03-09T00:00Z'), ['2026-03-06T22:00 2026-03-07T06:00'])
  t.same(
    openings(new SendTimes(['Sun 23:00-01:00'], 'UTC'), '2026-03-01T12:00Z', '2026-03-09T12:00Z'),
    ['2026-03-01T23:00 2026-03-02T01:00', '2026-03-08T23:00 2026-03-09T01:00'],
    'from Sunday into Monday',
  )
})

t.test('days, over the end of the week too, whole days, and several windows', async (t) => {
  t.same(openings(new SendTimes(['Sat-Mon 01:00-02:00'], 'UTC'), '2026-03-02T00:00Z', '2026-03-09T00:00Z'), [
    '2026-03-02T01:00 2026-03-02T02:00',
    '2026-03-07T01:00 2026-03-07T02:00',
    '2026-03-08T01:00 2026-03-08T02:00',
  ])
  t.same(openings(new SendTimes(['Sat-Sun 00:00-24:00', 'Mon-Fri 22:00-06:00'], 'UTC'), '2026-03-05T12:00Z', '2026-03-10T12:00Z'), [
    '2026-03-05T22:00 2026-03-06T06:00',
    '2026-03-06T22:00 2026-03-09T00:00',
    '2026-03-09T22:00 2026-03-10T06:00',
  ])
  t.same(openings(new SendTimes(['22:00-00:00'], 'UTC'), '2026-03-02T12:00Z', '2026-03-03T12:00Z'), ['2026-03-02T22:00 2026-03-03T00:00'])
})

t.test('times are those of the zone', async (t) => {
  t.same(openings(new SendTimes(['Mon 08:00-09:00'], 'Asia/Kolkata'), '2026-03-01T00:00Z', '2026-03-08T00:00Z'), ['2026-03-02T02:30 2026-03-02T03:30'])
  t.same(
    openings(new SendTimes(['Mon 08:00-09:00'], 'Pacific/Kiritimati'), '2026-03-01T00:00Z', '2026-03-07T00:00Z'),
    ['2026-03-01T18:00 2026-03-01T19:00'],
    'where it is Monday already',
  )
  t.same(
    openings(new SendTimes(['Sun 20:00-02:00'], 'America/New_York'), '2026-01-04T00:00Z', '2026-01-06T12:00Z'),
    ['2026-01-05T01:00 2026-01-05T07:00'],
    'where it is Sunday yet',
  )
})

t.test('a night of summer time: clocks go from 02:00 to 03:00', async (t) => {
  const berlin = (...spans: string[]) => openings(new SendTimes(spans, 'Europe/Berlin'), '2026-03-28T12:00Z', '2026-03-30T12:00Z')
  t.same(berlin('22:00-06:00'), ['2026-03-28T21:00 2026-03-29T04:00', '2026-03-29T20:00 2026-03-30T04:00'], 'an hour shorter')
  t.same(berlin('02:15-02:45'), ['2026-03-30T00:15 2026-03-30T00:45'], 'times that the night does not have are left out')
  t.same(berlin('01:30-03:30'), ['2026-03-29T00:30 2026-03-29T01:30', '2026-03-29T23:30 2026-03-30T01:30'])
})

t.test('a night of winter time: clocks go from 03:00 to 02:00', async (t) => {
  const berlin = (...spans: string[]) => openings(new SendTimes(spans, 'Europe/Berlin'), '2026-10-24T12:00Z', '2026-10-26T12:00Z')
  t.same(berlin('22:00-06:00'), ['2026-10-24T20:00 2026-10-25T05:00', '2026-10-25T21:00 2026-10-26T05:00'], 'an hour longer')
  t.same(berlin('02:15-02:45'), ['2026-10-25T00:15 2026-10-25T00:45', '2026-10-25T01:15 2026-10-25T01:45', '2026-10-26T01:15 2026-10-26T01:45'], 'twice')
})

t.test('what is no window or no zone is refused by name', async (t) => {
  for (const text of ['22-06', '22:00', '25:00-06:00', '22:60-23:00', '24:00-06:00', '06:00-06:00', '00:00-24:01', 'Mo 01:00-02:00', 'Mon,Tue 01:00-02:00', ''])
    t.throws(() => new SendTimes([text], 'UTC'), { code: 'CONFIG_ERROR', message: `cannot use database.forward.send_between "${text}": write it as` }, text)
  t.throws(() => new SendTimes(['22:00-06:00'], 'Mars/Olympus'), { code: 'CONFIG_ERROR', message: /time_zone "Mars\/Olympus"/ })
})

t.test('what the upstream does not take is not tried again outside of the times', async (t) => {
  let closed = false
  const tries = { open: 0, closed: 0 }
  const refuses = definePlugin({
    id: 'refuses',
    summary: 'Takes nothing',
    stability: 'experimental',
    capabilities: ['points'],
    setup(svc) {
      svc.ingest.admit(() => {
        tries[closed ? 'closed' : 'open']++
        throw new SvcError('BACKPRESSURE', 'for the test', { headers: { 'retry-after': '0' } })
      })
    },
  })
  const { url } = await upstream(t, { plugins: [refuses], config: { server: { allow_open: true } } })
  let now = at('2024-01-01T12:00Z')
  let pauses = 0
  const pause = async (ms: number, signal: AbortSignal): Promise<void> => {
    pauses++
    await realEnvironment.pause(Math.min(ms, 1), signal)
  }
  const forward = { upstream: [{ name: 'one', url }], send_between: ['11:00-13:00'] }
  const edge = edgeOf({ data_dir: temporaryFolder(t), forward }, { now: () => now, environment: { ...realEnvironment, pause } })
  await edge.open()
  t.teardown(() => edge.close())
  await write(edge, [{ measurement: 'cpu', tags: {}, time: NOW, fields: { v: f64(1) } }], { namespace: '' })
  await eventually(() => tries.open > 2)
  now = at('2024-01-01T13:00Z')
  // One may be on its way.
  const before = pauses
  await eventually(() => pauses > before + 2)
  closed = true
  await eventually(() => pauses > before + 50)
  t.equal(tries.closed, 0)
  closed = false
  const { open } = tries
  now = at('2024-01-02T11:00Z')
  await eventually(() => tries.open > open)
})
