from swarm.extensions import Command, Extension

EXTENSION = Extension(
    package="swarm-weather",
    commands={"weather": Command(target="swarm_weather.parts:weather")},
    agents="swarm_weather.parts:agents",
    routes="swarm_weather.parts:routes",
    section="swarm_weather.settings:WeatherSettings",
)
