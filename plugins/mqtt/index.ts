import { CONNECTORS, type Connectors, definePlugin, type PointFormat, pointFormat, pointFormats } from 'svcdb'
import { configSchema, connectorsOf } from './config.ts'
import { MqttConnector } from './connector.ts'
import { mqttMetrics } from './metrics.ts'

export default definePlugin({
  id: 'mqtt',
  summary: 'Takes points from an MQTT broker, acknowledged when they are durable',
  stability: 'beta',
  config: configSchema,
  needsSection: true,
  includes: ['connectors'],
  requires: [CONNECTORS],
  capabilities: ['points'],
  setup(svc, config) {
    const metrics = mqttMetrics(svc.metrics)
    const listing = svc.use<Connectors>(CONNECTORS)
    const connectors = connectorsOf(config).map((each) => {
      if (!svc.provided.has(pointFormat(each.format)))
        throw new Error(
          `cannot read format "${each.format}" of ${each.name}: the plugins of this node read ${pointFormats(svc.provided).join(', ') || 'none'}; select the plugin of the format, such as line_protocol, native (json), remote_write (prometheus_remote_write), otlp or sparkplug_b`,
        )
      const connector = new MqttConnector(svc, each, metrics)
      listing.add(connector)
      return { connector, config: each }
    })
    svc.start(() => {
      for (const { connector, config: each } of connectors) {
        const format = svc.find<PointFormat>(pointFormat(each.format))
        if (format?.defaults === false && (each.tags_from_topic.length > 0 || Object.keys(each.topic_measurement_map).length > 0))
          throw new Error(
            `cannot use tags_from_topic or topic_measurement_map of ${each.name}: points of format "${each.format}" name their measurements and tags`,
          )
        const shared = each.topics.find((topic) => topic.startsWith('$share/'))
        if (format?.ordered === true && shared !== undefined)
          throw new Error(
            `cannot use the topic "${shared}" of ${each.name}: messages of format "${each.format}" have to come all to one reader, and a broker spreads those of a shared subscription; subscribe without $share`,
          )
        connector.start(format)
      }
    })
    // A broker knows one client of a name, and would send every message to each of several.
    for (const { connector } of connectors) svc.own(connector.name, ({ signal }) => connector.run(signal))
    svc.stop(async () => {
      await Promise.all(connectors.map(({ connector }) => connector.stop()))
    })
  },
})
