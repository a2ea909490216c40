import type { Counter, Metrics } from '../metrics.ts'
import type { NodeStatus } from './types.ts'

export interface ClusterMetrics {
  takeovers: Counter
  lost: Counter
  failures: Counter
}

interface ClusterGauges {
  nodes: NodeStatus[]
  owned: number
  beatAgeMs: number
}

const STATUSES: NodeStatus[] = ['active', 'dead', 'draining', 'decommissioned', 'stopped']

export function clusterMetrics(metrics: Metrics, gauges: () => ClusterGauges): ClusterMetrics {
  metrics.gauge('cluster_nodes', 'Nodes that share their state with this one, itself included, by status, as it sees them', ['status'], (gauge) => {
    const { nodes } = gauges()
    for (const status of STATUSES) gauge.set({ status }, nodes.filter((each) => each === status).length)
  })
  metrics.gauge('cluster_owned_work', 'Work that this node owns: schedules, connectors and what else plugins have one node do', [], (gauge) => {
    gauge.set({}, gauges().owned)
  })
  metrics.gauge('cluster_heartbeat_age_seconds', 'Time since this node has beaten in the state store; 0 where the state is its own', [], (gauge) => {
    gauge.set({}, gauges().beatAgeMs / 1000)
  })
  return {
    takeovers: metrics.counter('cluster_takeovers_total', 'Work taken over from nodes that were dead'),
    lost: metrics.counter('cluster_lost_work_total', 'Work that this node had to stop because another has it, or it could not beat in time'),
    failures: metrics.counter('cluster_heartbeat_failures_total', 'Looks at the state store that failed'),
  }
}
