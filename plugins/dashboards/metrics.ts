import type { Metrics } from 'svcdb'
import type { LibraryCounts } from './library.ts'

export function dashboardMetrics(metrics: Metrics, counts: () => LibraryCounts): void {
  metrics.gauge('dashboards', 'Dashboards that are served, by where they came from: shipped with svc, or own of the folder', ['source'], (gauge) => {
    gauge.set({ source: 'shipped' }, counts().shipped)
    gauge.set({ source: 'own' }, counts().own)
  })
  metrics.gauge('dashboards_refused', 'Problems with files of the folder, none of which is served', [], (gauge) => gauge.set(counts().refused))
}
