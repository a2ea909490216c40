import { conformance } from '../conformance/index.ts'
import { embedded, RESTLESS } from './testing/conformance-engine.ts'

// In the short form they share the rules.
conformance('embedded, restless and crashing', embedded(RESTLESS, 'crashed'), { events: ['restart', undefined] })
conformance('embedded, crashing', embedded({}, 'crashed'), { events: [undefined, 'restart'], part: 'lives' })
