/** What operators see of events, and deliver. */
import type { AgentEvent, CorrelationKey, Deliverer } from '../index.ts'
import type { Page } from './runs.ts'

export interface DeadLetterView {
  source: string
  id: string
  kind: string
  correlation: CorrelationKey[]
  /** RFC 3339. */
  received_at: string
  reason: string
}

export interface EventOperations {
  /** @param by for whom the runs act that begin with it. */
  deliver(event: AgentEvent, by?: Deliverer): Promise<{ delivery: 'resumed' | 'buffered' | 'duplicate'; run?: string }>
  /** Oldest first. */
  deadLetters(limit: number): Promise<Page<DeadLetterView>>
}
