/** Takes an event: for the run that waits for it, for runs that begin with it, or to keep. In one transaction. */
import type { StateStore, StateTransaction } from 'svcdb'
import type { AgentEvent, AgentPlane, Json, RunRequest } from 'svcdb/agents'
import { SvcError } from 'svcdb/lib/errors'
import { canonical } from '../record/canonical.ts'
import { type Delivery, type EventRoom, ordered, deliver as store } from '../store/events.ts'
import type { Admitted } from './driver.ts'
import { OWN_KINDS } from './step-records.ts'

export interface EventRules {
  /** Runs that an event begins where none waits for it. */
  beginnings?(event: AgentEvent): RunRequest[]
  /** Told of those that may not begin; where none does, the event is kept. */
  refused?(event: AgentEvent, error: SvcError): void
  /** Correlation keys of an event. */
  maxEventKeys?: number
  /** Of all events that are kept; absent = no bound. */
  room?: EventRoom
}

interface DeliveryTools extends EventRules {
  state: StateStore
  now(): number
  /** @returns what admits a run. @throws SvcError */
  prepared(request: RunRequest): Promise<(tx: StateTransaction) => Promise<Admitted>>
}

/** Of an id, a kind, a source, and each half of a correlation key. */
const MAX_TEXT = 1024

/** @throws SvcError BAD_REQUEST; FORBIDDEN for a kind that is the plane's. */
export function checkedEvent(
  { correlation = [], id, kind, payload, source, to, label }: Parameters<AgentPlane['deliver']>[0],
  maxBytes: number,
  maxKeys = Number.POSITIVE_INFINITY,
): AgentEvent {
  const refuse = (why: string) => new SvcError('BAD_REQUEST', `cannot deliver event: ${why}`)
  if (kind.startsWith(OWN_KINDS)) throw new SvcError('FORBIDDEN', `cannot deliver event: kinds that begin with "${OWN_KINDS}" are the plane's; choose another`)
  for (const [name, text] of Object.entries({ id, kind, source }))
    if (text === '' || text.length > MAX_TEXT) throw refuse(`its ${name} has 1 to ${MAX_TEXT} characters`)
  // Each is looked for among the waits, and kept with what nobody waits for.
  if (correlation.length > maxKeys) throw refuse(`it has ${correlation.length} correlation keys, and ${maxKeys} are the limit; see agent_plane.max_event_keys`)
  if (correlation.some(({ namespace, value }) => namespace.length > MAX_TEXT || value.length > MAX_TEXT))
    throw refuse(`a correlation key has at most ${MAX_TEXT} characters in its namespace, and in its value`)
  let text: string
  try {
    // As deep as it is within its event.
    text = canonical([payload]).slice(1, -1)
  } catch (error) {
    throw refuse((error as Error).message)
  }
  if (Buffer.byteLength(text) > maxBytes) throw refuse(`its payload has more than ${maxBytes} bytes`)
  return {
    id,
    source,
    kind,
    correlation: ordered(correlation),
    payload: JSON.parse(text) as Json,
    ...(to === undefined ? {} : { to }),
    ...(label === undefined ? {} : { label }),
  }
}

/** @returns also the runs that it begins. */
export async function deliver(
  event: AgentEvent,
  { state, now, beginnings, refused, prepared, room }: DeliveryTools,
): Promise<Delivery & { begun: Admitted[] }> {
  const beginning = await Promise.all((event.to === undefined ? (beginnings?.(event) ?? []) : []).map((request) => prepared(request).catch(refusalOf)))
  let begun: Admitted[] = []
  let refusals: SvcError[] = []
  const answer = await state.transaction((tx) => {
    begun = []
    refusals = []
    const begin = async () => {
      for (const one of beginning) {
        const end = one instanceof SvcError ? one : await one(tx).catch(refusalOf)
        if (end instanceof SvcError) refusals.push(end)
        else begun.push(end)
      }
      return begun[0]?.run
    }
    return store(tx, event, now(), { begin, ...(room === undefined ? {} : { room }) })
  })
  for (const error of refusals) refused?.(event, error)
  return { ...answer, begun }
}

/** A run that may not begin has written nothing. @throws whatever is not said of the run. */
function refusalOf(error: unknown): SvcError {
  if (error instanceof SvcError && ['BAD_REQUEST', 'FORBIDDEN', 'RATE_LIMITED'].includes(error.code)) return error
  throw error
}
