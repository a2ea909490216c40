import { definePlugin, Type } from 'svcdb'

export default definePlugin({
  id: 'hello',
  summary: 'Greets, and counts how often',
  stability: 'beta',
  config: Type.Object({ greeting: Type.String({ default: 'hello', description: 'What to say' }) }),
  setup(svc, config) {
    const greeted = svc.metrics.counter('greetings_total', 'Greetings given')
    svc.http.get('/hello/:name', async (request) => {
      greeted.inc()
      return { greeting: `${config.greeting} ${request.params.name}` }
    })
  },
})
