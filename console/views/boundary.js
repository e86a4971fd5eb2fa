// Replaces what cannot be drawn by a message; the rest of the page works.

import { Component, html } from '../vendor/preact-htm.js';
import { FailurePanel } from './later.js';
import { Button } from './parts.js';

/** `wrap(shown)`: what is around the panel. Retries on request, and when `place` changes. */
export class Boundary extends Component {
  componentDidCatch(error) {
    reportError(error);
    // The panel may fail too.
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
