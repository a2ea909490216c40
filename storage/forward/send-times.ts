/** When points may be sent: times of the day, on some days of the week, in a time zone. */
import { SvcError } from 'svcdb/lib/errors'

const DAYS = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun']
const FORM = /^(?:(Mon|Tue|Wed|Thu|Fri|Sat|Sun)(?:-(Mon|Tue|Wed|Thu|Fri|Sat|Sun))? )?(\d\d):(\d\d)-(\d\d):(\d\d)$/
const DAY = 1440
/** Between two looks whether points may be sent. */
export const CLOSED_LOOK_MS = 5000

interface Span {
  /** On which days it begins, Monday first. */
  days: boolean[]
  /** Minutes of the day; an end before the start is on the next day. */
  from: number
  to: number
}

export class SendTimes {
  private readonly spans: Span[]
  private readonly clock: Intl.DateTimeFormat | undefined

  /** @throws CONFIG_ERROR for what is no time or zone. */
  constructor(spans: readonly string[], timeZone: string) {
    this.spans = spans.map(spanOf)
    if (spans.length === 0) return
    try {
      this.clock = new Intl.DateTimeFormat('en-US', { timeZone, weekday: 'short', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })
    } catch (error) {
      throw new SvcError('CONFIG_ERROR', `cannot use database.forward.time_zone "${timeZone}": there is no such zone; name one such as Europe/Berlin`, {
        cause: error,
      })
    }
  }

  /** @param ms since the Unix epoch. */
  isOpen(ms: number): boolean {
    if (this.clock === undefined) return true
    const parts = Object.fromEntries(this.clock.formatToParts(ms).map(({ type, value }) => [type, value]))
    const day = DAYS.indexOf(parts.weekday)
    const minute = Number(parts.hour) * 60 + Number(parts.minute)
    return this.spans.some(({ days, from, to }) => {
      if (from < to) return days[day] && minute >= from && minute < to
      return (days[day] && minute >= from) || (days[(day + 6) % 7] && minute < to)
    })
  }
}

function spanOf(text: string): Span {
  const [, first, last, ...times] = FORM.exec(text) ?? []
  const [fromHour, fromMinute, toHour, toMinute] = times.map(Number)
  const [from, to] = [fromHour * 60 + fromMinute, toHour * 60 + toMinute]
  if (times.length < 4 || fromMinute > 59 || toMinute > 59 || from >= DAY || to > DAY || from === to)
    throw new SvcError('CONFIG_ERROR', `cannot use database.forward.send_between "${text}": write it as "22:00-06:00" or "Mon-Fri 22:00-06:00"`)
  const days = DAYS.map((_, day) => first === undefined || within(day, DAYS.indexOf(first), DAYS.indexOf(last ?? first)))
  return { days, from, to }
}

const within = (day: number, first: number, last: number): boolean => (first <= last ? day >= first && day <= last : day >= first || day <= last)
