import type { Counter, Metrics } from 'svcdb'
import type { Figures } from './attention/figures.ts'

export interface PlaneMetrics {
  admitted: Counter
  pushes: Counter
  settled: Counter
  effects: Counter
  effectSeconds: Counter
  events: Counter
  broken: Counter
  deadLetters: Counter
  recovered: Counter
}

interface PlaneGauges {
  driving(): number
  waiting(): number
  /** As of the last sweep. */
  figures(): Pick<Figures, 'runs' | 'attention' | 'waitingSignals'>
}

export function planeMetrics(metrics: Metrics, gauges: PlaneGauges): PlaneMetrics {
  metrics.gauge('agent_plane_driving', 'Runs that go on in this process', [], (gauge) => gauge.set(gauges.driving()))
  metrics.gauge('agent_plane_queue_length', 'Runs that wait for their turn in this process', [], (gauge) => gauge.set(gauges.waiting()))
  metrics.gauge('agent_plane_runs', 'Runs that are not over by status, up to 1000 of each, as of the last sweep of this process', ['status'], (gauge) => {
    for (const [status, count] of gauges.figures().runs) gauge.set({ status }, count)
  })
  metrics.gauge(
    'agent_plane_attention',
    'What needs a person by condition, as GET /attention of the operator API finds it, up to 100 of each and tenant, as of the last sweep of this process',
    ['condition'],
    (gauge) => {
      for (const [condition, count] of gauges.figures().attention) gauge.set({ condition }, count)
    },
  )
  metrics.gauge('agent_plane_waiting_signals', 'Signals whose runs may not begin yet, as of the last sweep of this process', [], (gauge) => {
    gauge.set(gauges.figures().waitingSignals)
  })
  return {
    pushes: metrics.counter('agent_plane_pushes_total', 'Tries to tell a receiver what became of a run: taken, failed, parked (nothing is tried any more)', [
      'result',
    ]),
    admitted: metrics.counter('agent_plane_runs_admitted_total', 'Runs that were begun'),
    settled: metrics.counter('agent_plane_passes_total', 'Passes over runs by the status that they got to', ['status']),
    effects: metrics.counter('agent_plane_effects_total', 'Attempts of effects by how they ended: done, failed, in_doubt', ['result']),
    effectSeconds: metrics.counter('agent_plane_effect_seconds_total', 'Time that attempts of effects have taken, with both records of each'),
    events: metrics.counter('agent_plane_events_total', 'Events by what became of them: resumed, buffered, duplicate', ['delivery']),
    broken: metrics.counter('agent_plane_passes_broken_total', 'Passes that ended because the store failed or another process took the run over'),
    deadLetters: metrics.counter('agent_plane_dead_letters_total', 'Events for which no run has waited in time'),
    recovered: metrics.counter('agent_plane_runs_taken_up_total', 'Runs that a sweep took up: of processes that ended, and whose wait was over'),
  }
}
