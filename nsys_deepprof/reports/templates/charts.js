// Draws the page's charts from the specifications in #chart-specs, those in view first.
// The policy of the page forbids code made from text, so Vega interprets its expressions (ast).
const block = document.getElementById("chart-specs");
const { config, specs } = block ? JSON.parse(block.textContent) : { config: {}, specs: {} };
const options = { ast: true, renderer: "svg", actions: false, config, hover: false };

const deepprof = (window.deepprof = { views: {}, errors: [] });

deepprof.draw = async (id) => {
  const place = document.getElementById(id);
  const { view } = await vegaEmbed(place, specs[id], options);
  deepprof.views[id] = view;
  return view;
};

const distance = (id) => {
  const box = document.getElementById(id).getBoundingClientRect();
  return box.bottom < 0 ? -box.bottom : Math.max(0, box.top - innerHeight);
};

const drawAll = async () => {
  const ids = Object.keys(specs).filter((id) => !id.startsWith("timeline"));
  ids.sort((a, b) => distance(a) - distance(b));
  for (const id of ids) {
    // One a frame: the page answers while it draws.
    await new Promise((next) => setTimeout(next));
    try {
      await deepprof.draw(id);
    } catch (error) {
      deepprof.errors.push(String(error));
      document.getElementById(id).textContent = "This chart could not be drawn.";
      console.error(id, error);
    }
  }
};

deepprof.drawn = drawAll();
// Vega follows the window's width on `resize`; paper is another width, and says so itself.
addEventListener("beforeprint", () => dispatchEvent(new Event("resize")));
addEventListener("afterprint", () => dispatchEvent(new Event("resize")));
