import { conformance } from '../conformance/index.ts'
import { embedded, RESTLESS } from './testing/conformance-engine.ts'

conformance('embedded, restless and crashing', embedded(RESTLESS, 'crashed'), { events: ['restart'] })
conformance('embedded, crashing', embedded({}, 'crashed'), { events: ['restart'], livesOnly: true })
