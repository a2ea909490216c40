import { definePlugin } from 'svcdb'
import { configSchema } from './config.ts'
import { functions } from './functions.ts'

export default definePlugin({
  id: 'analytics',
  summary: 'SQL functions for time series: rates, moving statistics, forecasts, anomalies, seasonal decomposition',
  stability: 'stable',
  config: configSchema,
  capabilities: ['sql_functions'],
  setup(svc) {
    for (const declaration of functions) svc.sql.function(declaration)
  },
})
