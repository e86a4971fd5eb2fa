// What cannot be drawn is said in its place; the rest of the page goes on.

import { Component, html } from '../vendor/preact-htm.js';
import { FailurePanel } from './later.js';
import { Button } from './parts.js';

/** `wrap(shown)`: what stands around the panel. What failed is tried again when it is asked for, and where `place` has changed. */
export class Boundary extends Component {
  componentDidCatch(error) {
    reportError(error);
    // The panel may fail, too.
    this.setState((had) => ({ error, isBare: had.error != null }));
  }

  componentDidUpdate({ place }) {
    if (this.state.error && place !== this.props.place) this.setState({ error: null });
  }

  render({ ctx, wrap = (shown) => shown, children }, { error, isBare }) {
    if (!error) return children;
    const problem = {
      code: 'page_failed', title: 'This part of the page could not be shown', detail: String(error.message ?? error), errors: [],
      todo: 'Try again, or load the page anew: runs go on without it',
    };
    return wrap(html`<div class="page">${isBare ? problem.title : html`<${FailurePanel} ctx=${ctx} problem=${problem} />`}
      <${Button} label="Try again" id="try-again" onClick=${() => this.setState({ error: null })} /></div>`);
  }
}
