/** What operators see of the events of a tenant, and deliver. */
import type { StateReader } from 'svcdb'
import type { AgentEvent, DeadLetterView, Deliverer, EventOperations, Page } from 'svcdb/agents'
import type { PlaneService } from '../service.ts'
import { deadLetters } from '../store/events.ts'
import { cut } from './runs.ts'

export class OperatedEvents implements EventOperations {
  private readonly service: PlaneService
  /** From the ready phase on. */
  private readonly state: () => StateReader

  constructor(service: PlaneService, state: () => StateReader) {
    this.service = service
    this.state = state
  }

  deliver(event: AgentEvent, by?: Deliverer): ReturnType<EventOperations['deliver']> {
    return this.service.deliver(event, by)
  }

  async deadLetters(limit: number): Promise<Page<DeadLetterView>> {
    return cut(await deadLetters(this.state(), limit + 1), limit)
  }
}
